//! The files of a log as a test sees and changes them: names, bytes, frames made by hand.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use hermes_log::log::format::{FrameCodec, SEGMENT_HEADER_LEN, SegmentHeader};
use hermes_log::{Compaction, Counter, Durability, Entry, Event, Gap, Options, Origin, Profile};
use hermes_log::{Position, View, Writer};

use super::processes::at_once;

/// A profile's home that goes away with it.
pub struct Home {
    dir: tempfile::TempDir,
    pub profile: Profile,
}

impl Home {
    /// A new home, in memory where that can be had: tests of bytes do not wait for a disk.
    pub fn new(capacity: u32) -> Home {
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let profile = Profile::at(dir.path()).with_options(Options { capacity: Some(capacity), ..Options::default() });
        Home { dir, profile }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn segment_path(&self, number: u64) -> PathBuf {
        self.profile.log_folder().join(format!("{number:020}.seg"))
    }

    pub fn checkpoint_path(&self, floor: u64) -> PathBuf {
        self.profile.log_folder().join(format!("checkpoint-{floor:020}"))
    }

    pub fn header(&self, segment: u64) -> SegmentHeader {
        let bytes = fs::read(self.segment_path(segment)).unwrap();
        SegmentHeader::decode(&bytes[..SEGMENT_HEADER_LEN]).unwrap()
    }

    /// The frame that this segment takes for its own.
    pub fn frame(&self, segment: u64, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        FrameCodec::new(&self.header(segment)).encode(payload, &mut frame);
        frame
    }

    /// As a process would that does not check anything. Returns where the bytes begin.
    pub fn append_bytes(&self, segment: u64, bytes: &[u8]) -> u64 {
        let mut file = fs::OpenOptions::new().append(true).open(self.segment_path(segment)).unwrap();
        let begin = file.metadata().unwrap().len();
        file.write_all(bytes).unwrap();
        begin
    }

    pub fn len(&self, segment: u64) -> u64 {
        fs::metadata(self.segment_path(segment)).unwrap().len()
    }

    pub fn set_len(&self, segment: u64, len: u64) {
        fs::OpenOptions::new().write(true).open(self.segment_path(segment)).unwrap().set_len(len).unwrap();
    }

    /// Changes the bytes of a file in place.
    pub fn edit(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
    }

    pub fn writer(&self) -> Writer {
        self.profile.writer(Origin::here("session")).unwrap()
    }

    pub fn view(&self) -> View {
        self.profile.view().unwrap()
    }

    pub fn used(&self, skill: &str) -> Position {
        self.writer().append(&Event::used(skill), Durability::Process).unwrap()
    }

    pub fn compact(&self) -> Compaction {
        self.profile.compact(&at_once()).unwrap()
    }

    /// Numbers of the files of one kind, ascending.
    pub fn segments(&self) -> Vec<u64> {
        numbers(&self.profile.log_folder(), "", ".seg")
    }

    pub fn checkpoints(&self) -> Vec<u64> {
        numbers(&self.profile.log_folder(), "checkpoint-", "")
    }

    /// What was set aside, by name.
    pub fn damaged(&self) -> BTreeMap<String, Vec<u8>> {
        let folder = self.profile.log_folder().join("damaged");
        if !folder.is_dir() {
            return BTreeMap::new();
        }
        let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
        entries.map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap())).collect()
    }

    /// Seals the live segment as a compactor would.
    pub fn seal(&self, segment: u64) {
        self.set_len(segment, u64::from(self.header(segment).capacity));
    }
}

fn numbers(folder: &Path, prefix: &str, suffix: &str) -> Vec<u64> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut numbers: Vec<u64> =
        names.filter_map(|name| name.strip_prefix(prefix)?.strip_suffix(suffix)?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// The payload of a frame.
pub fn payload(time_micros: u64, origin: &Origin<'_>, events: &[Event<'_>]) -> Vec<u8> {
    rmp_serde::to_vec(&(time_micros, origin, events)).unwrap()
}

/// The payload of one use of a skill.
pub fn use_payload(skill: &str) -> Vec<u8> {
    payload(1_700_000_000_000_000, &Origin::here("session"), &[Event::used(skill)])
}

/// Every file of a home but locks and ballast, to be put back as often as needed.
#[derive(Clone)]
pub struct Image {
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    capacity: u32,
}

impl Image {
    pub fn of(home: &Home, capacity: u32) -> Image {
        let mut files = BTreeMap::new();
        for folder in ["event-log", "skills"] {
            let Ok(entries) = fs::read_dir(home.path().join(folder)) else { continue };
            for path in entries.map(|entry| entry.unwrap().path()) {
                let name = path.file_name().unwrap().to_str().unwrap();
                if path.is_file() && !name.ends_with(".lock") && name != "ballast" {
                    files.insert(path.strip_prefix(home.path()).unwrap().to_owned(), fs::read(&path).unwrap());
                }
            }
        }
        Image { files, capacity }
    }

    pub fn home(&self) -> Home {
        let home = Home::new(self.capacity);
        for folder in ["event-log", "skills"] {
            fs::DirBuilder::new().mode(0o700).create(home.path().join(folder)).unwrap();
        }
        for (path, bytes) in &self.files {
            let mut options = fs::OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(home.path().join(path)).unwrap();
            file.write_all(bytes).unwrap();
        }
        home
    }
}

/// How often each skill was used.
pub type Uses = BTreeMap<String, u64>;

pub fn uses(view: &View) -> Uses {
    view.skills().into_iter().map(|(name, skill)| (name.to_owned(), skill.count(Counter::Use))).collect()
}

/// What the readers say of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub uses: Uses,
    /// Above the floor.
    pub gaps: Vec<Gap>,
}

/// View, scan and verify must say the same.
pub fn report(profile: &Profile) -> Report {
    let view = profile.view().unwrap();
    let (mut scanned, mut scanned_gaps) = (Uses::new(), Vec::new());
    let end = profile
        .scan(None, |entry| {
            match entry {
                Entry::Gap(gap) => scanned_gaps.push(gap),
                Entry::Frame { batch, .. } => {
                    for event in batch.into_iter().flat_map(|batch| batch.events) {
                        if let Event::Used { skill, count } = event {
                            *scanned.entry(skill.into_owned()).or_default() += count;
                        }
                    }
                }
                _ => {}
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    let verified = profile.verify(|_| {}).unwrap();
    let gaps = view.gaps_met().to_vec();
    // What the newest checkpoint covers is read by the other two alone, as far as it is still there.
    let above_floor =
        |gaps: &[Gap]| -> Vec<Gap> { gaps.iter().filter(|gap| gap.position.segment > view.floor()).copied().collect() };
    assert_eq!(above_floor(&scanned_gaps), gaps, "scan and view");
    assert_eq!(above_floor(&verified.gaps), gaps, "verify and view");
    assert_eq!((verified.position, end), (view.position(), view.position()), "all read up to the same place");
    let uses = uses(&view);
    if view.floor() == 0 {
        assert_eq!(scanned, uses, "scan and view");
    }
    Report { uses, gaps }
}
