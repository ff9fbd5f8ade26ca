//! `auth refresh`: single flight for scripts.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

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
/// For what a command that has ended printed last.
const AFTER_THE_END: Duration = Duration::from_millis(200);
/// More than this is not an answer of a token endpoint.
const MOST_ANSWER_LEN: u64 = 1 << 20;

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
    let printed = child.stdout.take().map(read_apart);
    let status = child.wait().map_err(|e| failed(&format!("cannot wait for the command: {e}")))?;
    let mut answer = Zeroizing::new(Vec::with_capacity(1 << 16)); // growing would leave pieces behind
    // It has ended; what it may have left running has its output still, and is not waited for.
    while let Some(piece) = printed.as_ref().and_then(|printed| printed.recv_timeout(AFTER_THE_END).ok()) {
        answer.extend_from_slice(&piece);
    }
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

/// What is read comes in pieces, so that reading can be given up.
fn read_apart(output: impl Read + Send + 'static) -> Receiver<Zeroizing<Vec<u8>>> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut output = output.take(MOST_ANSWER_LEN);
        let mut piece = Zeroizing::new(vec![0; 1 << 16]);
        while let Ok(len @ 1..) = output.read(&mut piece) {
            let read = Zeroizing::new(piece.get(..len).unwrap_or_default().to_vec());
            if sender.send(read).is_err() {
                return;
            }
        }
    });
    receiver
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
