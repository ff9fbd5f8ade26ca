//! One segment: opened, created, sealed.

use crate::error::{Error, Result};
use crate::log::folder::{Folder, is_exposed, may_change};
use crate::log::format::{self, BadHeader, FrameCodec, SegmentHeader};
use crate::sys;
use crate::sys::file::{self, File};

/// An open segment whose header checks out.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) file: File,
    pub(crate) header: SegmentHeader,
    pub(crate) codec: FrameCodec,
}

/// What an attempt to open a segment found. R2 is the caller's: only a listing made *after* this open can tell whether
/// the segment may be used.
#[derive(Debug)]
pub(crate) enum Opened {
    Segment(Segment),
    /// The header does not check out: one gap of this many bytes, counts as sealed.
    Bad {
        len: u64,
    },
    Absent,
}

/// What for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Append,
}

/// Opens segment `number`.
pub(crate) fn open(folder: &Folder, number: u64, access: Access) -> Result<Opened> {
    let path = folder.segment_path(number);
    let file = match access {
        Access::Read => File::open_read(&path),
        Access::Append => File::open_append(&path),
    };
    let file = match file {
        Err(e) if e.is_not_found() => return Ok(Opened::Absent),
        other => other?,
    };
    let stat = file.stat()?;
    if is_exposed(&stat) {
        if access == Access::Read || !may_change(&stat) {
            return Err(Error::Exposed { path, mode: stat.mode });
        }
        file.set_mode(stat.mode & 0o700)?;
    }
    match read_header(&file)? {
        Ok(header) if header.number == number => {
            let codec = FrameCodec::new(&header);
            Ok(Opened::Segment(Segment { file, header, codec }))
        }
        Err(BadHeader::Newer { version }) => Err(Error::NewerFormat { path, found: version, known: format::VERSION }),
        Ok(_) | Err(BadHeader::Damaged) => Ok(Opened::Bad { len: stat.len }),
    }
}

fn read_header(file: &File) -> Result<Result<SegmentHeader, BadHeader>> {
    let mut bytes = [0; format::SEGMENT_HEADER_LEN];
    let len = file.read_at(&mut bytes, 0)?;
    Ok(SegmentHeader::decode(bytes.get(..len).unwrap_or_default()))
}

impl Segment {
    pub(crate) fn capacity(&self) -> u64 {
        u64::from(self.header.capacity)
    }

    pub(crate) fn is_sealed(&self) -> Result<bool> {
        Ok(self.file.len()? >= self.capacity())
    }

    /// Seals: takes no space, is idempotent, cannot be half done. Every append that the kernel orders after it is void.
    /// If appends ran beyond the capacity already, this removes only void bytes.
    pub(crate) fn seal(&self) -> Result<()> {
        let _span = tracing::debug_span!("seal", segment = self.header.number).entered();
        self.file.truncate(self.capacity())
    }

    /// Writes the header once more, the same bytes. Where a sync of another process failed, the kernel may have dropped the
    /// header's page, and would tell this process that all is well.
    pub(crate) fn renew_header(&self) -> Result<()> {
        let writable = match File::open_write(self.file.path()) {
            Err(e) if e.is_not_found() => return Ok(()), // compacted away: its events are in a durable checkpoint
            other => other?,
        };
        if writable.stat()?.same_file(&self.file.stat()?) {
            writable.write_at(&self.header.encode(), 0)?;
        }
        Ok(())
    }

    /// Whether the file that the name has now is this one, with the header that it had.
    pub(crate) fn is_in_place(&self) -> Result<bool> {
        let Some(named) = file::stat_if_there(self.file.path())? else { return Ok(false) };
        Ok(named.same_file(&self.file.stat()?) && read_header(&self.file)? == Ok(self.header))
    }
}

/// What the next segment takes over from the log, and what is fresh.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lineage {
    pub(crate) log_id: [u8; 16],
    pub(crate) capacity: u32,
}

/// Creates a segment, or finds that somebody else did. Only ever called for the successor of a sealed segment, or for
/// `floor + 1` when no segment is above the floor.
pub(crate) fn create(folder: &Folder, number: u64, lineage: Lineage) -> Result<()> {
    let header = SegmentHeader {
        capacity: lineage.capacity,
        log_id: lineage.log_id,
        number,
        salt: u64::from_le_bytes(sys::random()),
        created: sys::now_micros(),
    };
    // Nothing is synced: who counts a skill must not wait for a disk.
    let here = folder.publish(&folder.segment_path(number), &header.encode(), false)?;
    tracing::debug!(number, here, "segment created");
    Ok(())
}
