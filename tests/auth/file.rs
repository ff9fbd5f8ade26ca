//! `auth.json`: taken in, written, shared, damaged, unreadable.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use hermes_log::auth::{Auth, Imported, PROVIDER_STATE};
use hermes_log::sys::fault;
use hermes_log::{Error, Fields, Status, StatusKind};
use serde_json::{Value, json};

use crate::support::log_files::Home;
use crate::support::processes::Worker;
use crate::{auth, fields};

const CAPACITY: u32 = 256 << 10;

fn stored() -> Value {
    json!({
        "version": 1,
        "a_field_of_a_newer_version": {"kept": [1, 2.50, "ü"]},
        "active_provider": "nous",
        "credential_pool": {
            "openrouter": [
                {"id": "ab12", "label": "work", "access_token": "pool-access-1", "priority": 0, "odd": [{"x": null}]},
                {"id": "cd34", "label": "home", "access_token": "pool-access-2", "last_status": "exhausted"},
            ],
        },
        "providers": {
            "codex": {"tokens": {"access_token": "deep-access", "refresh_token": "deep-refresh"}, "last_refresh": "x"},
            "nous": {"access_token": "nous-access", "refresh_token": "nous-refresh", "scope": "a b"},
        },
        "suppressed_sources": {"openrouter": ["env"]},
        "updated_at": "2026-01-01T00:00:00+00:00",
    })
}

fn write(path: &Path, value: &Value) {
    fs::write(path, serde_json::to_string_pretty(value).unwrap() + "\n").unwrap();
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn imported(new: usize, updated: usize, unchanged: usize, old: usize) -> Imported {
    Imported { new, updated, unchanged, old, problems: Vec::new() }
}

fn credential<'a>(auth: &'a Auth, provider: &str, id: &str) -> &'a Fields {
    auth.view().credential(provider, id).unwrap().fields()
}

#[test]
fn what_is_taken_in_is_written_again_with_every_field() {
    let home = Home::new(CAPACITY);
    let path = home.path().join("auth.json");
    write(&path, &stored());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let mut auth = auth(&home.profile);
    assert_eq!(auth.import(&path).unwrap(), imported(4, 0, 0, 0));
    assert_eq!(auth.import(&path).unwrap(), imported(0, 0, 4, 0));
    assert_eq!(auth.view().active_provider(), Some("nous"));
    assert!(auth.view().is_suppressed("openrouter", "env"));
    assert_eq!(read(&path), stored(), "an import only reads");

    assert_eq!(auth.export(&path).unwrap().written, 4);
    let mut written = read(&path);
    assert_ne!(written["updated_at"], stored()["updated_at"]);
    written["updated_at"] = stored()["updated_at"].clone();
    assert_eq!(written, stored());
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    // Into a file that is not there too.
    let fresh = home.path().join("fresh.json");
    auth.export(&fresh).unwrap();
    assert_eq!(read(&fresh)["credential_pool"], stored()["credential_pool"]);
    assert_eq!(fs::metadata(&fresh).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn what_happened_in_the_log_is_in_the_file_and_what_happened_in_the_file_is_not_written_over() {
    let home = Home::new(CAPACITY);
    let path = home.path().join("auth.json");
    write(&path, &stored());
    let mut auth = auth(&home.profile);
    auth.import(&path).unwrap();
    auth.set("openrouter", "ab12", fields(r#"{"id": "ab12", "access_token": "newer"}"#)).unwrap();
    let status =
        Status { code: Some(429), reset_micros: Some(1_800_000_000_500_000), ..Status::of(StatusKind::Exhausted) };
    auth.set_status("openrouter", "ab12", 2, status).unwrap();
    auth.remove("openrouter", "cd34").unwrap();
    auth.unsuppress("openrouter", "env").unwrap();
    auth.suppress("nous", "browser").unwrap();
    auth.set_active(Some("openrouter")).unwrap();
    // Meanwhile Hermes has refreshed one of them in the file.
    let mut changed = stored();
    changed["providers"]["nous"]["refresh_token"] = "of-hermes".into();
    write(&path, &changed);

    let done = auth.export(&path).unwrap();
    assert_eq!((done.written, done.unknown), (2, vec![format!("nous {PROVIDER_STATE}")]));
    let written = read(&path);
    assert_eq!(written["providers"]["nous"]["refresh_token"], "of-hermes", "not written over");
    let pool = &written["credential_pool"]["openrouter"];
    assert_eq!(pool.as_array().unwrap().len(), 1, "removed");
    assert_eq!((&pool[0]["access_token"], &pool[0]["last_status"]), (&json!("newer"), &json!("exhausted")));
    assert_eq!((&pool[0]["last_error_code"], &pool[0]["last_error_reset_at"]), (&json!(429), &json!(1_800_000_000.5)));
    assert_eq!(written["suppressed_sources"], json!({"nous": ["browser"]}));
    assert_eq!(written["active_provider"], "openrouter");

    // Taken in, it is current, and what was current stands beside it: nothing that came back is dropped.
    assert_eq!(auth.import(&path).unwrap().new, 1);
    assert_eq!(credential(&auth, "nous", PROVIDER_STATE).text("refresh_token").unwrap().reveal(), "of-hermes");
    assert_eq!(auth.view().credential("nous", PROVIDER_STATE).unwrap().alternates().len(), 1);
    assert!(auth.export(&path).unwrap().unknown.is_empty());
}

#[test]
fn an_old_copy_brings_back_neither_replaced_tokens_nor_removed_credentials() {
    let home = Home::new(CAPACITY);
    let path = home.path().join("auth.json");
    write(&path, &stored());
    let mut auth = auth(&home.profile);
    auth.import(&path).unwrap();
    for n in 0..5 {
        let text = format!("{{\"access_token\": \"a{n}\", \"refresh_token\": \"r{n}\"}}");
        auth.set("nous", PROVIDER_STATE, fields(&text)).unwrap();
    }
    auth.remove("openrouter", "cd34").unwrap();
    home.compact();
    let mut later = crate::auth(&home.profile);
    assert_eq!(later.import(&path).unwrap(), imported(0, 0, 2, 2));
    assert_eq!(credential(&later, "nous", PROVIDER_STATE).text("refresh_token").unwrap().reveal(), "r4");
    assert_eq!(later.view().credential("openrouter", "cd34"), None);
    // A login makes it another one.
    let mut changed = stored();
    changed["credential_pool"]["openrouter"][1]["access_token"] = "a new login".into();
    write(&path, &changed);
    assert_eq!(later.import(&path).unwrap(), imported(1, 0, 2, 1));
}

#[test]
fn a_file_that_two_homes_share_by_symlink_stays_one_file_under_one_lock() {
    let (one, two) = (Home::new(CAPACITY), Home::new(CAPACITY));
    let shared = tempfile::tempdir().unwrap();
    let target = shared.path().join("auth.json");
    write(&target, &json!({"version": 1, "providers": {}}));
    fs::write(shared.path().join("auth.lock"), "").unwrap();
    for (home, provider) in [(&one, "first"), (&two, "second")] {
        let link = home.path().join("auth.json");
        symlink(&target, &link).unwrap();
        let mut auth = auth(&home.profile);
        auth.import(&link).unwrap();
        auth.set(provider, PROVIDER_STATE, fields(r#"{"access_token": "x"}"#)).unwrap();
        auth.export(&link).unwrap();
        assert!(link.is_symlink());
        let names: Vec<_> = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(!names.iter().any(|name| name.to_string_lossy().contains("lock")), "{names:?}");
    }
    let providers: Vec<String> = read(&target)["providers"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(providers, ["first", "second"]);
    let names: Vec<_> = fs::read_dir(shared.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "the lock that was there, and no temporary file: {names:?}");
}

#[test]
fn owner_and_group_are_kept_also_by_root() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("only root can give a file away");
        return;
    }
    let home = Home::new(CAPACITY);
    let path = home.path().join("auth.json");
    write(&path, &stored());
    std::os::unix::fs::chown(&path, Some(12345), Some(23456)).unwrap();
    let mut auth = auth(&home.profile);
    auth.import(&path).unwrap();
    auth.export(&path).unwrap();
    let stat = fs::metadata(&path).unwrap();
    assert_eq!((stat.uid(), stat.gid(), stat.mode() & 0o777), (12345, 23456, 0o600));
}

#[test]
fn both_locks_of_hermes_are_waited_for_and_released() {
    let home = Home::new(CAPACITY);
    let path = home.path().join("auth.json");
    let mut auth = auth(&home.profile);
    auth.set("p", "c", fields(r#"{"api_key": "k"}"#)).unwrap();
    let mut holder = Worker::start("hold locks", home.path(), &[&CAPACITY], "");
    assert_eq!(holder.told().as_deref(), Some("held"));
    std::thread::scope(|scope| {
        let export = scope.spawn(|| auth.export(&path));
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(!path.exists(), "written without the lock");
        holder.go_on();
        export.join().unwrap().unwrap();
    });
    assert!(path.exists());
}

#[test]
fn unreadable_is_an_error_and_nothing_is_written() {
    let home = Home::new(CAPACITY);
    let path = home.path().join("auth.json");
    write(&path, &stored());
    let mut auth = auth(&home.profile);
    auth.set("p", "c", fields(r#"{"api_key": "k"}"#)).unwrap();
    auth.export(&path).unwrap();
    let (text, log) = (fs::read(&path).unwrap(), fs::read(home.segment_path(1)).unwrap());
    for error in ["EACCES", "EMFILE", "EIO"] {
        for call in ["open", "read"] {
            fault::arm(&format!("{call}@1={error}"));
            let outcome = auth.import(&path);
            fault::disarm();
            assert!(matches!(outcome, Err(Error::Io { .. })), "{call} {error}: {outcome:?}");
            // In an export the locks are opened first.
            fault::arm(&format!("{call}@{}={error}", if call == "open" { 3 } else { 1 }));
            let outcome = auth.export(&path);
            fault::disarm();
            assert!(matches!(outcome, Err(Error::Io { .. })), "{call} {error}: {outcome:?}");
            assert_eq!(fs::read(&path).unwrap(), text);
            assert_eq!(fs::read(home.segment_path(1)).unwrap(), log);
        }
    }
    let missing = auth.import(&home.path().join("no.json"));
    assert!(missing.unwrap_err().is_not_found());
}

#[test]
fn an_export_whose_calls_fail_leaves_the_old_file_or_the_new_one_whole() {
    let home = Home::new(CAPACITY);
    let path = home.path().join("auth.json");
    write(&path, &stored());
    let mut auth = auth(&home.profile);
    auth.set("p", "c", fields(r#"{"api_key": "k"}"#)).unwrap();
    fault::arm("");
    auth.export(&path).unwrap();
    let calls = fault::disarm();
    assert!(calls > 10);
    for call in 1..=calls {
        write(&path, &stored());
        fault::arm(&format!("any@{call}=ENOSPC"));
        let outcome = auth.export(&path);
        fault::disarm();
        let written = read(&path);
        let is_new = written["credential_pool"].get("p").is_some();
        assert!(is_new || written == stored(), "call {call}");
        assert!(is_new || outcome.is_err(), "call {call}");
    }
    auth.export(&path).unwrap();
    assert_eq!(read(&path)["credential_pool"]["p"][0]["api_key"], "k");
}

#[test]
fn what_is_no_file_is_neither_read_nor_replaced() {
    let home = Home::new(CAPACITY);
    let mut auth = auth(&home.profile);
    auth.set("nous", "main", fields(r#"{"access_token": "a"}"#)).unwrap();
    let fifo = home.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let link = home.path().join("zero");
    symlink("/dev/zero", &link).unwrap();
    for path in [&fifo, &link, home.path()] {
        for outcome in [auth.export(path).map(drop), auth.import(path).map(drop)] {
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("a regular file"), "{error}");
        }
    }
}

#[test]
fn one_credential_that_does_not_fit_costs_no_other() {
    let home = Home::new(CAPACITY);
    let path = home.path().join("auth.json");
    let entry = |id: &str, token: &str| json!({"id": id, "access_token": token});
    let pool = [entry("good", "a"), entry("large", &"x".repeat(1 << 20)), entry(&"n".repeat(2000), "b")];
    write(
        &path,
        &json!({"providers": {"": {"access_token": "c"}, "nous": {"access_token": "d"}}, "credential_pool": {"p": pool}}),
    );
    let mut auth = auth(&home.profile);
    let imported = auth.import(&path).unwrap();
    assert_eq!((imported.new, imported.problems.len()), (2, 3), "{imported:?}");
    assert!(imported.problems.iter().all(|problem| problem.contains("left out")), "{imported:?}");
}

#[test]
fn what_hermes_has_seen_of_a_credential_is_its_status() {
    let home = Home::new(CAPACITY);
    let path = home.path().join("auth.json");
    let dead = json!({"id": "dead", "access_token": "a", "last_status": "dead", "last_error_code": 401});
    let used_up = json!({"id": "used", "access_token": "b", "last_status": "exhausted", "last_error_code": 429,
        "last_error_reset_at": "2026-01-01T00:00:00+00:00", "last_error_message": "b is over"});
    write(&path, &json!({"providers": {}, "credential_pool": {"p": [dead, used_up]}}));
    let mut auth = auth(&home.profile);
    for round in 0..2 {
        auth.import(&path).unwrap();
        let status = |id| auth.view().credential("p", id).unwrap().status().unwrap().clone();
        assert_eq!((status("dead").kind, status("dead").code), (StatusKind::LoginRequired, Some(401)), "{round}");
        let expected = (StatusKind::Exhausted, Some(1_767_225_600_000_000));
        assert_eq!((status("used").kind, status("used").reset_micros), expected, "{round}");
    }
    let before = read(&path)["credential_pool"].clone();
    auth.export(&path).unwrap();
    assert_eq!(read(&path)["credential_pool"], before, "to the letter");
}

#[test]
fn a_credential_without_secrets_is_written_again_and_again() {
    let home = Home::new(CAPACITY);
    let path = home.path().join("auth.json");
    let mut auth = auth(&home.profile);
    auth.set("nous", "main", fields(r#"{"a": 1}"#)).unwrap();
    for _ in 0..2 {
        assert_eq!(auth.export(&path).unwrap().unknown, Vec::<String>::new());
    }
}

#[test]
fn a_damaged_file_is_kept_and_read_as_far_as_it_can_be() {
    let whole = serde_json::to_string_pretty(&stored()).unwrap();
    let pool_end = whole.find("\"providers\"").unwrap();
    for (damaged, what, credentials) in [
        (format!("\u{feff}{whole}").into_bytes(), "a byte order mark", 4),
        (format!("{whole}\n}}").into_bytes(), "a brace too many", 4),
        (whole.as_bytes()[..pool_end + 40].to_vec(), "cut off behind the pool", 3),
        ([whole.as_bytes(), b"\0\0\0"].concat(), "zeros behind the end", 4),
        (
            whole.replace('ü', "\u{1}").into_bytes().iter().map(|b| if *b == 1 { 0xfc } else { *b }).collect(),
            "cp1252",
            4,
        ),
        (vec![0; 300], "nothing but zeros", 0),
        (b"[]".to_vec(), "a list", 0),
        (Vec::new(), "empty", 0),
    ] {
        let home = Home::new(CAPACITY);
        let path = home.path().join("auth.json");
        fs::write(&path, &damaged).unwrap();
        let mut auth = auth(&home.profile);
        let done = auth.import(&path).unwrap();
        assert!(!done.problems.is_empty(), "{what}");
        let found = auth.view().credentials().count();
        assert!(found == credentials || (what.starts_with("cut") && found >= 2), "{what}: {found}");
        assert_eq!(fs::read(&path).unwrap(), damaged, "{what}: an import only reads");

        auth.set("p", "c", fields(r#"{"api_key": "k"}"#)).unwrap();
        let aside = auth.export(&path).unwrap().set_aside.expect(what);
        assert_eq!(fs::read(&aside).unwrap(), damaged, "{what}");
        assert_eq!(fs::metadata(&aside).unwrap().mode() & 0o777, 0o600);
        assert_eq!(read(&path)["credential_pool"]["p"][0]["api_key"], "k", "{what}");
    }
}
