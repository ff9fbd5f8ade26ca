//! A segment's file as it stands, whatever the log thinks of it: also below the floor, also with a bad header.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::log::format::{
    self, BadHeader, FIRST_FRAME_OFFSET, FRAME_HEADER_LEN, FrameCodec, SEGMENT_HEADER_LEN, SegmentHeader,
    UnverifiedHeader,
};
use crate::log::scan::{End, Found, Reason, Scan};
use crate::log::{Gap, Position};
use crate::profile::Profile;
use crate::sys::file::{self, File};

pub(super) struct SegmentFile {
    pub(super) path: PathBuf,
    /// The file's length in bytes, what is beyond the capacity included.
    pub(super) len: u64,
    pub(super) header: Result<SegmentHeader, BadHeader>,
    pub(super) seal: Seal,
    /// Up to the capacity.
    bytes: Vec<u8>,
}

/// Whether a segment can still gain events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seal {
    Live,
    /// Its length has reached the capacity.
    Sealed,
    /// It has not, but a higher segment is there.
    ReadAsSealed,
}

/// What stands in a segment.
pub(super) enum Item<'a> {
    Frame { offset: u64, header: UnverifiedHeader, payload: &'a [u8] },
    Gap(Gap),
    Void { offset: u64, header: UnverifiedHeader },
}

/// Where a segment of the profile is, or would be.
pub(super) fn path(profile: &Profile, number: u64) -> PathBuf {
    profile.log_folder().join(format!("{number:020}.seg"))
}

impl SegmentFile {
    /// Reads the file, no further than its capacity.
    pub(super) fn read(path: &Path) -> Result<SegmentFile> {
        let file = File::open_read(path).map_err(|e| match e {
            e if e.is_not_found() => Error::NotFound { what: "segment", name: path.display().to_string() },
            e => e,
        })?;
        let len = file.stat()?.len;
        let mut bytes = vec![0; SEGMENT_HEADER_LEN];
        let taken = file.read_at(&mut bytes, 0)?;
        bytes.truncate(taken);
        let header = SegmentHeader::decode(&bytes);
        let mut seal = Seal::Live;
        if let Ok(header) = header {
            let capacity = u64::from(header.capacity);
            bytes.resize(usize::try_from(len.min(capacity)).unwrap_or(0), 0);
            let taken = file.read_at(&mut bytes, 0)?;
            bytes.truncate(taken);
            if len >= capacity {
                seal = Seal::Sealed;
            } else if has_higher(path, header.number)? {
                seal = Seal::ReadAsSealed;
            }
        }
        Ok(SegmentFile { path: path.to_owned(), len, header, seal, bytes })
    }

    /// The first bytes, where the header is.
    pub(super) fn head(&self) -> &[u8] {
        self.bytes.get(..SEGMENT_HEADER_LEN).unwrap_or(&self.bytes)
    }

    /// Passes what stands behind the header to `sink`, in order. Returns the offset behind it.
    pub(super) fn scan(&self, mut sink: impl FnMut(Item<'_>) -> ControlFlow<()>) -> u64 {
        let Ok(header) = self.header else { return 0 };
        let codec = FrameCodec::new(&header);
        let frames = self.bytes.get(SEGMENT_HEADER_LEN..).unwrap_or_default();
        let end = if self.seal == Seal::Live { End::Live } else { End::Sealed };
        let mut scan = Scan::new(&codec, frames, FIRST_FRAME_OFFSET, end);
        loop {
            let item = match scan.next() {
                Found::Frame { offset, payload } => Item::Frame { offset, header: self.frame_header(offset), payload },
                Found::Void { offset } => Item::Void { offset, header: self.frame_header(offset) },
                Found::Gap { offset, len, reason } => {
                    Item::Gap(Gap { position: Position { segment: header.number, offset }, len: Some(len), reason })
                }
                Found::Sealed | Found::Pending => return scan.offset(),
            };
            if sink(item).is_break() {
                return scan.offset();
            }
        }
    }

    fn frame_header(&self, offset: u64) -> UnverifiedHeader {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.bytes.get(start..).unwrap_or_default();
        UnverifiedHeader::decode(rest.get(..FRAME_HEADER_LEN).unwrap_or(rest))
    }

    /// The number that the file's name gives it, if it does.
    pub(super) fn number_by_name(&self) -> Option<u64> {
        number(self.path.file_name()?.to_str()?)
    }

    /// What a bad header means: the segment is one gap, or a newer version's.
    pub(super) fn bad(&self) -> Option<Result<Gap>> {
        match self.header {
            Ok(_) => None,
            Err(BadHeader::Newer { version }) => {
                Some(Err(Error::NewerFormat { path: self.path.clone(), found: version, known: format::VERSION }))
            }
            Err(BadHeader::Damaged) => {
                let position = Position { segment: self.number_by_name().unwrap_or(0), offset: 0 };
                Some(Ok(Gap { position, len: Some(self.len), reason: Reason::SegmentHeader }))
            }
        }
    }
}

fn has_higher(path: &Path, number: u64) -> Result<bool> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let names = file::list(folder)?;
    Ok(names.iter().filter_map(|name| self::number(name)).any(|other| other > number))
}

fn number(name: &str) -> Option<u64> {
    name.strip_suffix(".seg")?.parse().ok()
}
