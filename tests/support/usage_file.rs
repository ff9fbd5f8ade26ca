//! `.usage.json` as others see and change it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Map, Value};

use super::log_files::Home;

pub fn write(home: &Home, bytes: &[u8]) {
    let path = home.profile.snapshot_path();
    if !path.parent().unwrap().is_dir() {
        fs::DirBuilder::new().mode(0o755).create(path.parent().unwrap()).unwrap();
    }
    fs::write(path, bytes).unwrap();
}

pub fn bytes(home: &Home) -> Vec<u8> {
    fs::read(home.profile.snapshot_path()).unwrap()
}

pub fn json(home: &Home) -> Map<String, Value> {
    serde_json::from_slice(&bytes(home)).unwrap()
}

/// Changes the records as a Hermes process does: a new file in the place of the old one.
pub fn change(home: &Home, how: impl FnOnce(&mut Map<String, Value>)) {
    let path = home.profile.snapshot_path();
    let mut records = if path.exists() { json(home) } else { Map::new() };
    how(&mut records);
    let temporary = path.with_file_name(".usage_test.tmp");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&temporary, serde_json::to_vec_pretty(&records).unwrap()).unwrap();
    fs::rename(temporary, path).unwrap();
}

/// One use more, as Hermes counts it.
pub fn bump(home: &Home, skill: &str, count: u64) {
    change(home, |records| {
        let record = records.entry(skill).or_insert_with(|| Value::Object(Map::new()));
        let before = record["use_count"].as_u64().unwrap_or(0);
        record["use_count"] = (before + count).into();
    });
}

/// Holds `.usage.json.lock` until it is dropped, as another process would: the lock belongs to the open file.
pub fn hold_lock(home: &Home) -> fs::File {
    let path = home.profile.snapshot_path().with_file_name(".usage.json.lock");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let lock = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    fs2::FileExt::try_lock_exclusive(&lock).unwrap();
    lock
}

/// What changes whenever the file is written or replaced.
pub fn identity(path: &Path) -> (u64, i64, i64, u64) {
    let stat = fs::metadata(path).unwrap();
    (stat.ino(), stat.ctime(), stat.ctime_nsec(), stat.size())
}

/// `python3`, if it is there: what depends on it is skipped with a message, else.
pub fn python() -> Option<Command> {
    let is_there = Command::new("python3").arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success());
    if !is_there {
        eprintln!("skipped: there is no python3 here");
    }
    is_there.then(|| Command::new("python3"))
}

pub fn stock_writer() -> Option<Command> {
    let mut command = python()?;
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/stock_writer.py"));
    Some(command)
}

/// Another process, this program again, that runs one ignored test of it with an argument, until its stdin ends.
pub struct Other {
    child: Child,
}

const ARGUMENT: &str = "HERMES_LOG_TEST_ARGUMENT";
const READY: &str = "the other process is ready";

impl Other {
    /// Starts it and waits until it says that it is [`ready`].
    pub fn start(test: &str, argument: &Path) -> Other {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
            .env(ARGUMENT, argument)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        assert!(lines.any(|line| line.contains(READY)), "{test} ended early");
        std::thread::spawn(move || lines.for_each(drop));
        Other { child }
    }

    /// Lets it go on and end; its test must pass.
    pub fn finish(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In the other process: what it was started for. `None` if it was not: an ignored test that was run by hand.
pub fn argument() -> Option<PathBuf> {
    std::env::var_os(ARGUMENT).map(PathBuf::from)
}

/// In the other process: goes on when the first process lets it.
pub fn ready() {
    println!("\n{READY}");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().lines().count();
}
