//! `auth refresh`: single flight for scripts.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::auth::{Auth, RefreshFailure, RefreshOptions};
use crate::cli::auth::{Names, show};
use crate::cli::compact::parse_duration;
use crate::cli::exit::{self, Exit, Failure};
use crate::cli::output::Output;
use crate::error::Error;
use crate::event::Fields;
use crate::view::auth::Credential;

pub(crate) const HELP: &str = "\
Examples:
  hermes-log auth refresh nous main -- ./ask-the-token-endpoint
  hermes-log auth refresh nous main --lease 20s --wait 30s -- python3 refresh.py
  hermes-log auth refresh nous main --generation 7 -- ./ask-the-token-endpoint

One process of all that ask at the same time runs COMMAND, with the current fields as JSON on its stdin, and
takes over the JSON object that it prints: fields that it leaves out stay. The others wait. All print the
credential as `auth show` does. No lock is held while COMMAND runs.

COMMAND must be done, time limits of its own included, before the lease runs out: then the next process may
try. If it fails, the failure is recorded, the tokens stay, and its exit code is passed on (128 and its
number for a signal). An object with \"error\" is a failure too; if that is invalid_grant, invalid_token or
access_denied (RFC 6749), the server has refused the tokens, and nobody tries again before the next login.";

/// Errors of a token endpoint that no second try helps against.
const REFUSALS: [&str; 5] =
    ["invalid_grant", "invalid_token", "access_denied", "unauthorized_client", "refresh_token_reused"];
/// More than this is not an answer of a token endpoint.
const MOST_ANSWER_LEN: usize = 1 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    names: Names,
    /// From the claim until somebody else may try
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s")]
    lease: Duration,
    /// How long to wait while somebody else refreshes
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "60s")]
    wait: Duration,
    /// The generation whose tokens are not good any more; with a newer one there is nothing to do [default: the current]
    #[arg(long, value_name = "N")]
    generation: Option<u64>,
    /// What makes the exchange
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(auth: &mut Auth, args: &Args, out: &mut Output) -> Result<Exit, Failure> {
    let Names { provider, id } = &args.names;
    let options = RefreshOptions { lease: args.lease, wait: args.wait };
    let current = auth.view().credential(provider, id).map(Credential::generation);
    let Some(generation) = args.generation.or(current) else {
        return Err(Error::NotFound { what: "credential", name: format!("{provider} {id}") }.into());
    };
    let mut code = None;
    let refreshed =
        auth.refresh_with(provider, id, generation, options, |fields| exchange(&args.command, fields, &mut code));
    match refreshed {
        Err(error) if code.is_none() => return Err(error.into()),
        Err(error) => out.error(&error.to_string(), Exit::Failed),
        Ok(refreshed) => {
            if let Some(known) = auth.view().credential(provider, id) {
                show::show(provider, id, known, out)?;
            }
            if code.is_some() && refreshed.is_own {
                out.warning("the command failed, but tokens had come back: what it printed was taken over");
            } else if code.is_some() {
                out.warning("the command failed, but another process has refreshed the tokens meanwhile");
            }
        }
    }
    out.flush()?;
    code.map_or(Ok(Exit::Done), |code| std::process::exit(code))
}

/// Runs the command. If it fails, `code` is what to pass on.
fn exchange(command: &[OsString], fields: &Fields, code: &mut Option<i32>) -> Result<Fields, RefreshFailure> {
    let failed = |what: &str| RefreshFailure::Failed(what.to_owned());
    let Some((program, arguments)) = command.split_first() else { return Err(failed("no command")) };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| failed(&format!("cannot run {}: {e}", program.to_string_lossy())))?;
    let input = fields.clone();
    // A command that does not read its input is fine.
    let stdin = child.stdin.take();
    std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(input.reveal().as_bytes())));
    let answer = read_answer(&mut child).map_err(|e| failed(&format!("cannot read what the command prints: {e}")))?;
    let status = child.wait().map_err(|e| failed(&format!("cannot wait for the command: {e}")))?;
    let answer = std::str::from_utf8(&answer).ok().map(|text| Fields::parse(text, fields.declared().to_vec()));
    let error = answer.as_ref().and_then(|fields| error_in(fields.as_ref().ok()?));
    if !status.success() {
        *code = Some(exit::passed_on(status));
    }
    match (error, answer) {
        // A token that came back is never dropped, whatever else the command did.
        (None, Some(Ok(answer))) if answer.has_secrets() => Ok(answer),
        (Some(_), Some(Ok(answer))) if !fields.with(&answer).has_secrets_of(fields) => Ok(answer),
        (Some((word, text)), _) if REFUSALS.contains(&word.as_str()) => Err(RefreshFailure::Refused(text)),
        (Some((_, text)), _) => Err(RefreshFailure::Failed(text)),
        (None, _) if !status.success() => Err(failed(&format!("the command ended with {status}"))),
        (None, Some(Ok(answer))) if !answer.is_blank() => Ok(answer),
        _ => Err(failed("the command printed no JSON object with fields")),
    }
}

/// All that a command prints until it ends. What it leaves running has its output still, and is not waited for: when it has
/// ended, what it printed is in the pipe.
fn read_answer(child: &mut Child) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut answer = Zeroizing::new(Vec::with_capacity(1 << 16)); // growing would leave pieces behind
    let Some(mut output) = child.stdout.take() else { return Ok(answer) };
    let Ok(ended) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) else {
        // Before Linux 5.3: until everybody who has it is done.
        output.take(MOST_ANSWER_LEN as u64).read_to_end(&mut answer)?;
        return Ok(answer);
    };
    ioctl_fionbio(&output, true)?;
    let mut piece = Zeroizing::new([0; 1 << 12]);
    loop {
        let mut events = [PollFd::new(&output, PollFlags::IN), PollFd::new(&ended, PollFlags::IN)];
        while poll(&mut events, None) == Err(Errno::INTR) {}
        // Asked before the pipe is emptied: nothing comes behind that.
        let has_ended = !events[1].revents().is_empty();
        loop {
            match output.read(&mut *piece) {
                Ok(0) => return Ok(answer),
                Ok(len) if answer.len() < MOST_ANSWER_LEN => {
                    answer.extend_from_slice(piece.get(..len).unwrap_or_default());
                }
                Ok(_) => return Ok(answer),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        if has_ended {
            return Ok(answer);
        }
    }
}

/// The error in an answer: its word, and a text for people.
fn error_in(answer: &Fields) -> Option<(String, String)> {
    let shown: Map<String, Value> = answer.redacted();
    let is_none = |error: &Value| matches!(error, Value::Null | Value::Bool(false)) || *error == "" || *error == 0;
    let error = shown.get("error").filter(|error| !is_none(error))?;
    let word = error.as_str().or_else(|| error.get("code").and_then(Value::as_str)).unwrap_or("error").to_owned();
    let text = shown.get("error_description").or_else(|| error.get("message")).and_then(Value::as_str);
    let text = text.map_or(word.clone(), |text| format!("{word}: {}", answer.redact_text(text)));
    Some((word, text))
}
