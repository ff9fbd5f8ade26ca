//! `locks`: who holds and who waits, across the profiles of the root.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::args::Global;
use crate::cli::display;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Column, Output};
use crate::error::Result;
use crate::event::Origin;
use crate::profile::Profile;
use crate::sys::procfs::{self, Flock, Process};
use crate::sys::{file, tree};

pub(crate) const HELP: &str = "\
Examples:
  hermes-log locks
  hermes-log locks --json | jq '.locks[] | select(.waiters != [])'

Shows every lock that is held in the profiles of the root: of skills, of the folder of all skills (held
while a skill appears or disappears), of the compactor, of .usage.json, of auth.json. It shows what
/proc/locks has.
Not there are processes of other containers, and who asks again and again instead of waiting (appends on
a network file system).

With --json {\"locks\": [{\"profile\": NAME, \"lock\": TEXT, \"path\": PATH, \"holders\": [PROCESS],
\"waiters\": [PROCESS]}]}. PROCESS is {\"process\": N, \"command\": TEXT, \"age_seconds\": N or null,
\"stopped\": BOOL}.";

pub(crate) fn run(global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let flocks = procfs::flocks()?;
    let mut rows = Vec::new();
    for (name, profile) in profiles(&global.profile()?)? {
        for (lock, path) in locks_of(&profile)? {
            if let Some(flock) = flocks.at(&path) {
                rows.push((name.clone(), lock, path, flock.clone()));
            }
        }
    }
    if out.is_json() {
        let rows: Vec<Value> = rows
            .iter()
            .map(|(profile, lock, path, Flock { holders, waiters })| {
                json!({
                    "profile": profile,
                    "lock": lock,
                    "path": path.to_string_lossy(),
                    "holders": holders.iter().map(process_json).collect::<Vec<_>>(),
                    "waiters": waiters.iter().map(process_json).collect::<Vec<_>>(),
                })
            })
            .collect();
        out.value(&json!({"locks": rows}))?;
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        out.message("no lock is held");
        return Ok(Exit::Done);
    }
    let header = [Column::Text("PROFILE"), Column::Text("LOCK"), Column::Text("HELD BY"), Column::Text("WAITING")];
    out.table(
        &header,
        rows.iter().map(|(profile, lock, _, flock)| {
            vec![profile.clone(), display::name(lock), processes(&flock.holders), processes(&flock.waiters)]
        }),
    )?;
    Ok(Exit::Done)
}

/// The profiles of the root, with their names.
fn profiles(profile: &Profile) -> Result<Vec<(String, Profile)>> {
    let root = profile.root();
    let mut profiles = vec![("default".to_owned(), Profile::at(&root))];
    let named = root.join("profiles");
    if file::stat_if_there(&named)?.is_some() {
        for (name, kind) in tree::entries(&named)? {
            if kind == tree::Kind::Folder {
                profiles.push((name.to_string_lossy().into_owned(), Profile::at(named.join(name))));
            }
        }
    }
    Ok(profiles)
}

/// What can be locked in a profile.
fn locks_of(profile: &Profile) -> Result<Vec<(String, PathBuf)>> {
    let mut locks: Vec<(String, PathBuf)> = profile
        .locks()
        .into_iter()
        .map(|(path, _)| (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), path))
        .collect();
    let of_hermes = ["auth.lock", "auth.json.lock"];
    locks.extend(of_hermes.map(|name| (name.to_owned(), profile.home().join(name))));
    locks.push(("all skills".to_owned(), profile.skills_folder()));
    let skills = profile.skills(Origin::here("cli")).list()?;
    locks.extend(skills.into_iter().map(|found| (format!("skill {}", found.name), found.folder)));
    Ok(locks)
}

fn processes(processes: &[Process]) -> String {
    let shown: Vec<String> = processes.iter().map(|process| display::escape(&brief(process)).into_owned()).collect();
    if shown.is_empty() { "-".to_owned() } else { shown.join("; ") }
}

/// "1234 python3, 5 s, stopped"
fn brief(process: &Process) -> String {
    let age = process.age.map(|age| format!(", {} s", age.as_secs())).unwrap_or_default();
    let stopped = if process.is_stopped { ", stopped" } else { "" };
    format!("{} {}{age}{stopped}", process.id, process.command)
}

fn process_json(process: &Process) -> Value {
    json!({
        "process": process.id,
        "command": process.command,
        "age_seconds": process.age.as_ref().map(Duration::as_secs_f64),
        "stopped": process.is_stopped,
    })
}
