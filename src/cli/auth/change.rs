//! `auth set`, `remove`, `import`, `export`.

use std::io::Read;
use std::path::Path;

use serde_json::json;
use zeroize::Zeroizing;

use crate::auth::Auth;
use crate::cli::auth::{Names, show};
use crate::cli::display;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::Output;
use crate::event::Fields;

pub(crate) const SET_HELP: &str = "\
Examples:
  echo '{\"access_token\": \"...\", \"refresh_token\": \"...\"}' | hermes-log auth set nous main -
  hermes-log auth set mine main - --secret cookie < credential.json

Any JSON object. access_token, refresh_token, agent_key, api_key and whatever ends in _token, _secret or
_key, at any depth, are secrets; --secret names others. Prints the credential as `auth show` does.";

pub(crate) const IMPORT_HELP: &str = "\
Secrets that the log has replaced or removed do not come back from an old copy of the file. What is
damaged is read as far as it can be, and reported; the exit code is 3 then.

With --json {\"new\": N, \"updated\": N, \"unchanged\": N, \"old\": N, \"problems\": [TEXT]}.";

pub(crate) const EXPORT_HELP: &str = "\
Takes Hermes's own locks (auth.lock, auth.json.lock) for a read, a merge and a replacement, and waits for
them up to 30 s: the exit code is 75 then. Credentials in the file whose secrets the log does not know are
left as they are, and named; the exit code is 3 then. A symlink is followed, owner and group stay, the mode
is 0600.

With --json {\"written\": N, \"unknown\": [NAME], \"set_aside\": PATH or null}.";

#[derive(Debug, clap::Args)]
pub(crate) struct Set {
    #[command(flatten)]
    names: Names,
    /// Where the JSON object comes from: `-`, which is stdin
    #[arg(value_parser = ["-"], value_name = "-")]
    from: String,
    /// A field that is a secret here
    #[arg(long = "secret", value_name = "FIELD")]
    secrets: Vec<String>,
}

pub(crate) fn set(auth: &mut Auth, args: &Set, out: &mut Output) -> Result<Exit, Failure> {
    let mut text = Zeroizing::new(String::new());
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|e| Failure::usage(format!("cannot read stdin: {e}; nothing was set")))?;
    let fields = Fields::parse(&text, args.secrets.clone())?;
    let Names { provider, id } = &args.names;
    auth.set(provider, id, fields)?;
    if let Some(known) = auth.view().credential(provider, id) {
        show::show(provider, id, known, out)?;
    }
    Ok(Exit::Done)
}

pub(crate) fn remove(auth: &mut Auth, names: &Names) -> Result<Exit, Failure> {
    auth.remove(&names.provider, &names.id)?;
    Ok(Exit::Done)
}

pub(crate) fn import(auth: &mut Auth, file: &Path, out: &mut Output) -> Result<Exit, Failure> {
    let done = auth.import(file)?;
    if out.is_json() {
        out.value(&json!({
            "new": done.new,
            "updated": done.updated,
            "unchanged": done.unchanged,
            "old": done.old,
            "problems": done.problems,
        }))?;
    } else {
        out.fields([
            ("new", done.new.to_string()),
            ("updated", done.updated.to_string()),
            ("unchanged", done.unchanged.to_string()),
            ("old, passed over", done.old.to_string()),
        ])?;
    }
    for problem in &done.problems {
        out.warning(&format!("{}: {problem}", file.display()));
    }
    Ok(Exit::with_gaps(!done.problems.is_empty()))
}

pub(crate) fn export(auth: &mut Auth, file: &Path, out: &mut Output) -> Result<Exit, Failure> {
    let done = auth.export(file)?;
    if out.is_json() {
        out.value(&json!({"written": done.written, "unknown": done.unknown, "set_aside": done.set_aside}))?;
    } else {
        out.fields([("written", display::count(done.written as u64, "credential"))])?;
    }
    if let Some(aside) = &done.set_aside {
        out.warning(&format!("{} was damaged, and is kept as {}", file.display(), aside.display()));
    }
    for name in &done.unknown {
        out.warning(&format!(
            "{name}: the file has secrets that the log does not know, they were left; import it first"
        ));
    }
    Ok(Exit::with_gaps(!done.unknown.is_empty() || done.set_aside.is_some()))
}
