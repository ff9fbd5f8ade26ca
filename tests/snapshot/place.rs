//! Where the file is, and whose: symlinks, mode, owner.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;

use hermes_log::compact::Snapshot;

use crate::support::log_files::Home;
use crate::support::usage_file::{self, bump};
use crate::{CAPACITY, use_count};

const RECORD: &[u8] = br#"{"pdf": {"use_count": 5}}"#;

#[test]
fn symlinks_are_followed_and_stay() {
    for (link, target) in [("../elsewhere/usage.json", "elsewhere/usage.json"), ("ABSOLUTE", "elsewhere/usage.json")] {
        let home = Home::new(CAPACITY);
        fs::create_dir(home.path().join("skills")).unwrap();
        fs::create_dir(home.path().join("elsewhere")).unwrap();
        let target = home.path().join(target);
        let link = if link == "ABSOLUTE" { target.clone() } else { Path::new(link).to_owned() };
        // A chain of two.
        symlink(&link, home.path().join("skills/second")).unwrap();
        symlink("second", home.profile.snapshot_path()).unwrap();
        home.used("pdf");
        // Dangling is not there yet.
        assert_eq!(use_count(&home, "pdf"), 1);
        home.compact();
        assert!(target.is_file());
        for round in 1..=3 {
            let mut records = usage_file::json(&home);
            assert_eq!(records["pdf"]["use_count"], 2 * round - 1);
            records["pdf"]["use_count"] = (2 * round).into();
            fs::write(&target, serde_json::to_vec(&records).unwrap()).unwrap();
            home.used("pdf");
            home.compact();
            assert_eq!(use_count(&home, "pdf"), 2 * round + 1);
        }
        assert_eq!(fs::read_link(home.profile.snapshot_path()).unwrap(), Path::new("second"));
        assert_eq!(fs::read_link(home.path().join("skills/second")).unwrap(), link);
        let left = fs::read_dir(target.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "temporary files are gone");
    }
}

#[test]
fn mode_is_kept() {
    for mode in [0o600, 0o664, 0o640, 0o444] {
        let home = Home::new(CAPACITY);
        usage_file::write(&home, RECORD);
        fs::set_permissions(home.profile.snapshot_path(), fs::Permissions::from_mode(mode)).unwrap();
        home.used("pdf");
        assert!(matches!(home.compact().snapshot, Snapshot::Written { external: 1 }));
        let stat = fs::metadata(home.profile.snapshot_path()).unwrap();
        assert_eq!(stat.permissions().mode() & 0o7777, mode);
        assert_eq!(use_count(&home, "pdf"), 6);
    }
}

#[test]
fn a_group_that_the_owner_is_not_in_is_given_up_and_loses_its_access() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can be somebody else");
        return;
    }
    let home = Home::new(CAPACITY);
    home.used("pdf");
    home.compact();
    let snapshot = home.profile.snapshot_path();
    fs::set_permissions(&snapshot, fs::Permissions::from_mode(0o664)).unwrap();
    // Wherever it was built, somebody else may not reach it.
    let program = home.path().join("program");
    fs::copy(env!("CARGO_BIN_EXE_hermes-log"), &program).unwrap();
    let everything = std::process::Command::new("chown").args(["-R", "4321:1234"]).arg(home.path()).status();
    assert!(everything.unwrap().success());
    std::os::unix::fs::chown(&snapshot, Some(4321), Some(0)).unwrap();
    home.used("pdf");
    let mut command = std::process::Command::new(&program);
    command.arg("--home").arg(home.path()).arg("compact").uid(4321).gid(1234).env_remove("HERMES_HOME");
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let stat = fs::metadata(&snapshot).unwrap();
    assert_eq!((stat.uid(), stat.gid(), stat.mode() & 0o777), (4321, 1234, 0o604), "{ran:?}");
    assert_eq!(usage_file::json(&home)["pdf"]["use_count"], 2);
}

#[test]
fn owner_and_group_are_kept_and_what_root_makes_belongs_to_the_owner_of_the_home() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can give files away");
        return;
    }
    let home = Home::new(CAPACITY);
    std::os::unix::fs::chown(home.path(), Some(4321), Some(1234)).unwrap();
    home.used("pdf");
    home.compact();
    let owner = |path: &Path| {
        let stat = fs::symlink_metadata(path).unwrap();
        (stat.uid(), stat.gid())
    };
    let mut folders = vec![home.path().to_owned()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            assert_eq!(owner(&path), (4321, 1234), "{}", path.display());
            seen += 1;
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    assert!(seen > 8);

    std::os::unix::fs::chown(home.profile.snapshot_path(), Some(77), Some(88)).unwrap();
    bump(&home, "other", 1); // makes a file of root
    std::os::unix::fs::chown(home.profile.snapshot_path(), Some(77), Some(88)).unwrap();
    home.compact();
    assert_eq!(owner(&home.profile.snapshot_path()), (77, 88));
    assert_eq!(usage_file::json(&home)["other"]["use_count"], 1);
}
