//! Logs to measure on: which skills happen, where the files are, what stands in them.

use std::path::{Path, PathBuf};

use hermes_log::log::format::{DEFAULT_CAPACITY, FIRST_FRAME_OFFSET, SEGMENT_HEADER_LEN, SegmentHeader};
use hermes_log::log::format::{FRAME_OVERHEAD_LEN, FrameCodec};
use hermes_log::{Durability, Event, Origin, Position, Profile, Writer};

pub const SKILLS: usize = 500;
/// Where a segment of the usual capacity is as good as full: a few frames fit yet.
const NEARLY_FULL_OFFSET: u64 = DEFAULT_CAPACITY as u64 - 1024;

/// A home on the file system of the build's folder, which goes away with it.
pub struct Home {
    folder: tempfile::TempDir,
    pub profile: Profile,
}

impl Home {
    pub fn new() -> Home {
        let folder = tempfile::tempdir_in(place()).unwrap();
        let profile = Profile::at(folder.path());
        Home { folder, profile }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn writer(&self) -> Writer {
        self.profile.writer(Origin::here("session")).unwrap()
    }

    /// The segments' bytes, oldest first.
    pub fn segments(&self) -> Vec<Vec<u8>> {
        let mut names: Vec<PathBuf> =
            std::fs::read_dir(self.profile.log_folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.retain(|path| path.extension().is_some_and(|extension| extension == "seg"));
        names.sort();
        names.iter().map(|path| std::fs::read(path).unwrap()).collect()
    }

    /// The frame at `position`, to the byte.
    pub fn frame(&self, position: Position) -> Vec<u8> {
        let path = self.profile.log_folder().join(format!("{:020}.seg", position.segment));
        let segment = std::fs::read(path).unwrap();
        let codec = codec_of(&segment);
        let bytes = &segment[position.offset as usize..];
        bytes[..codec.decode(bytes).unwrap().len() + FRAME_OVERHEAD_LEN].to_vec()
    }
}

/// Where homes are made: `HERMES_LOG_BENCH_DIR`, else inside the build's folder.
pub fn place() -> PathBuf {
    let place =
        std::env::var_os("HERMES_LOG_BENCH_DIR").map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from);
    std::fs::create_dir_all(&place).unwrap();
    place
}

/// Skills as they are used: a few of them most of the time (the k-th has the weight 1/k), all of them once at first.
pub struct Skills {
    names: Vec<String>,
    weights: Vec<f64>,
    state: u64,
    happened: usize,
}

impl Skills {
    pub fn new() -> Skills {
        let mut sum = 0.0;
        let weights = (1..=SKILLS).map(|k| {
            sum += 1.0 / k as f64;
            sum
        });
        Skills {
            weights: weights.collect(),
            names: (0..SKILLS).map(|k| format!("skill-{k:03}-{}", &"of-some-length"[..k % 13])).collect(),
            state: 0x9e37_79b9_7f4a_7c15,
            happened: 0,
        }
    }

    pub fn next(&mut self) -> Event<'_> {
        self.happened += 1;
        let draw = self.draw();
        let skill = if self.happened <= SKILLS { self.happened - 1 } else { draw };
        match self.state >> 33 & 7 {
            0..5 => Event::used(self.names[skill].as_str()),
            5..7 => Event::viewed(self.names[skill].as_str()),
            _ => Event::patched(self.names[skill].as_str()),
        }
    }

    /// As many events, borrowed from nothing.
    pub fn take(&mut self, count: usize) -> Vec<Event<'static>> {
        (0..count).map(|_| self.next().into_owned()).collect()
    }

    fn draw(&mut self) -> usize {
        // xorshift64: fast, and the same in every run.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let at = (self.state >> 11) as f64 / (1_u64 << 53) as f64 * self.weights[SKILLS - 1];
        self.weights.partition_point(|sum| *sum < at).min(SKILLS - 1)
    }
}

/// Appends events in frames of `batch`, each frame on its own.
pub fn fill(writer: &mut Writer, skills: &mut Skills, events: usize, batch: usize) -> Position {
    let mut last = Position::default();
    for _ in 0..events / batch {
        last = if batch == 1 {
            writer.append(&skills.next(), Durability::Process).unwrap()
        } else {
            writer.append_batch(&skills.take(batch), Durability::Process).unwrap()
        };
    }
    last
}

/// Appends until the live segment, which is fresh, is nearly full. Returns how many events that took.
pub fn fill_segment(writer: &mut Writer, skills: &mut Skills) -> u64 {
    let mut events = 0;
    let mut position = Position { segment: 0, offset: FIRST_FRAME_OFFSET };
    while position.offset < NEARLY_FULL_OFFSET {
        position = writer.append(&skills.next(), Durability::Process).unwrap();
        events += 1;
    }
    events
}

pub fn codec_of(segment: &[u8]) -> FrameCodec {
    FrameCodec::new(&SegmentHeader::decode(&segment[..SEGMENT_HEADER_LEN]).unwrap())
}

/// The middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
