//! `auth list`, `auth show`, `auth status`.

use serde_json::{Map, Value, json};

use crate::auth::Auth;
use crate::cli::display;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Column, Output};
use crate::error::Error;
use crate::event::{Status, StatusKind};
use crate::sys::Moment;
use crate::view::auth::Credential;

pub(crate) const LIST_HELP: &str = "\
With --json {\"credentials\": [CREDENTIAL], \"active_provider\": NAME or null, \"suppressed_sources\":
{PROVIDER: [SOURCE]}}; a CREDENTIAL is described in `auth show --help`.";

pub(crate) const HELP: &str = "\
Examples:
  hermes-log auth show nous
  hermes-log auth show nous main --json
  hermes-log auth show nous main --reveal access_token
  hermes-log auth show codex @provider --reveal tokens.refresh_token

Secrets are shown as [redacted]. --reveal prints the value of one field and nothing else, with --json as a
JSON value.

With --json one CREDENTIAL, or a list of them without ID: {\"provider\": NAME, \"id\": NAME, \"generation\": N,
\"obtained\": TIME, \"state\": WORD, \"code\": N or null, \"reset\": TIME or null, \"message\": TEXT or null,
\"claim\": {\"holder\": TEXT, \"left_seconds\": S} or null, \"fields\": {...}, \"alternates\": [FIELDS]}.";

pub(crate) const STATUS_HELP: &str = "\
STATE is ok, exhausted (until the reset), refreshing (by whom), unknown (somebody began a refresh and never
said what became of it), login_required, or - if nobody said anything yet.

With --json a list of CREDENTIAL, see `auth show --help`.";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The provider
    provider: String,
    /// The credential's id [default: all of the provider]
    id: Option<String>,
    /// Print this field, secret or not; inside an object as OBJECT.FIELD
    #[arg(long, value_name = "FIELD", requires = "id")]
    reveal: Option<String>,
}

pub(crate) fn list(auth: &Auth, out: &mut Output) -> Result<Exit, Failure> {
    let view = auth.view();
    if out.is_json() {
        let mut suppressed = Map::new();
        for (provider, source, _) in view.sources().filter(|(_, _, is_suppressed)| *is_suppressed) {
            if let Some(list) = suppressed.entry(provider).or_insert_with(|| json!([])).as_array_mut() {
                list.push(source.into());
            }
        }
        let credentials: Vec<Value> =
            view.credentials().map(|(provider, id, known)| exact(provider, id, known)).collect();
        out.value(&json!({
            "credentials": credentials,
            "active_provider": view.active_provider(),
            "suppressed_sources": suppressed,
        }))?;
        return Ok(Exit::Done);
    }
    if view.credentials().next().is_none() {
        out.message("no credentials yet; `hermes-log auth import ~/.hermes/auth.json` takes them in");
        return Ok(Exit::Done);
    }
    let header = [
        Column::Text("PROVIDER"),
        Column::Text("ID"),
        Column::Number("GENERATION"),
        Column::Text("STATE"),
        Column::Text("OBTAINED"),
        Column::Text("LABEL"),
    ];
    let rows = view.credentials().map(|(provider, id, known)| {
        let active = if view.active_provider() == Some(provider) { " (active)" } else { "" };
        let label = known.fields().redacted().get("label").and_then(Value::as_str).map(display::name);
        vec![
            format!("{}{active}", display::name(provider)),
            display::name(id),
            known.generation().to_string(),
            state(known).to_owned(),
            display::ago(i64::try_from(known.obtained_micros()).unwrap_or(i64::MAX)),
            label.unwrap_or_else(|| "-".into()),
        ]
    });
    out.table(&header, rows)?;
    Ok(Exit::Done)
}

pub(crate) fn one(auth: &Auth, args: &Args, out: &mut Output) -> Result<Exit, Failure> {
    let wanted = |provider: &str, id: &str| provider == args.provider && args.id.as_ref().is_none_or(|only| only == id);
    let found: Vec<_> = auth.view().credentials().filter(|(provider, id, _)| wanted(provider, id)).collect();
    if found.is_empty() {
        let name = format!("{} {}", args.provider, args.id.as_deref().unwrap_or_default());
        return Err(Error::NotFound { what: "credential", name: name.trim_end().to_owned() }.into());
    }
    if let (Some(field), [(_, _, known)]) = (&args.reveal, found.as_slice()) {
        return reveal(known, field, out);
    }
    if out.is_json() {
        let mut all: Vec<Value> = found.iter().map(|(provider, id, known)| exact(provider, id, known)).collect();
        let value = if args.id.is_some() { all.swap_remove(0) } else { Value::Array(all) };
        out.value(&value)?;
        return Ok(Exit::Done);
    }
    for (provider, id, known) in found {
        show(provider, id, known, out)?;
    }
    Ok(Exit::Done)
}

/// One credential for people, without its secrets.
pub(crate) fn show(provider: &str, id: &str, known: &Credential, out: &mut Output) -> Result<(), Failure> {
    if out.is_json() {
        return out.value(&exact(provider, id, known));
    }
    out.heading(&format!("{} {}", display::escape(provider), display::escape(id)))?;
    let mut fields = vec![
        ("generation".to_owned(), known.generation().to_string()),
        ("obtained".to_owned(), display::ago(i64::try_from(known.obtained_micros()).unwrap_or(i64::MAX))),
        ("state".to_owned(), details(known)),
    ];
    if !known.alternates().is_empty() {
        fields.push(("alternates".to_owned(), known.alternates().len().to_string()));
    }
    fields.extend(known.fields().redacted().iter().map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (display::name(name), display::escape(&text).into_owned())
    }));
    out.fields(fields.iter().map(|(name, value)| (name.as_str(), value.clone())))
}

fn reveal(known: &Credential, field: &str, out: &mut Output) -> Result<Exit, Failure> {
    let fields: Value = serde_json::from_str(known.fields().reveal()).unwrap_or_default();
    let inside = || field.split('.').try_fold(&fields, |object, name| object.get(name));
    let Some(value) = fields.get(field).or_else(inside) else {
        return Err(Error::NotFound { what: "field", name: field.to_owned() }.into());
    };
    match value.as_str().filter(|_| !out.is_json()) {
        Some(text) => out.line(text)?, // as it is: a token has no escape sequences, and must not be changed
        None => out.value(value)?,
    }
    Ok(Exit::Done)
}

pub(crate) fn status(auth: &Auth, provider: Option<&str>, out: &mut Output) -> Result<Exit, Failure> {
    let wanted = |name: &str| provider.is_none_or(|only| only == name);
    let found: Vec<_> = auth.view().credentials().filter(|(name, _, _)| wanted(name)).collect();
    if let (Some(name), []) = (provider, found.as_slice()) {
        return Err(Error::NotFound { what: "provider", name: name.to_owned() }.into());
    }
    if out.is_json() {
        let all: Vec<Value> = found.iter().map(|(provider, id, known)| exact(provider, id, known)).collect();
        out.value(&Value::Array(all))?;
        return Ok(Exit::Done);
    }
    let header = [Column::Text("PROVIDER"), Column::Text("ID"), Column::Number("GENERATION"), Column::Text("STATE")];
    let rows = found.iter().map(|(provider, id, known)| {
        vec![display::name(provider), display::name(id), known.generation().to_string(), details(known)]
    });
    out.table(&header, rows)?;
    Ok(Exit::Done)
}

/// One word.
fn state(known: &Credential) -> &'static str {
    let now = Moment::now();
    if known.needs_login() {
        return StatusKind::LoginRequired.as_str();
    }
    if known.claim().is_some_and(|claim| claim.is_held(&now)) {
        return "refreshing";
    }
    if known.is_unknown(&now) {
        return "unknown";
    }
    known.status().map_or("-", |status| status.kind.as_str())
}

/// The word, and what there is to say about it.
fn details(known: &Credential) -> String {
    let mut text = state(known).to_owned();
    if let Some(claim) = known.claim().filter(|claim| claim.is_held(&Moment::now())) {
        let left = claim.left(&Moment::now()).as_secs();
        text += &format!(", by {} for at most {left} s", display::escape(claim.holder()));
    } else if let Some(failure) = known.claim().and_then(|claim| claim.failure()) {
        text += &format!(", the last refresh failed: {}", display::escape(failure));
    }
    if let Some(Status { code, reset_micros, message, .. }) = known.status() {
        text += &code.map(|code| format!(", code {code}")).unwrap_or_default();
        text += &reset_micros.map(|reset| format!(", reset {}", display::ago(reset))).unwrap_or_default();
        let message = message.as_deref().filter(|_| !known.needs_login() || known.claim().is_none());
        text += &message.map(|message| format!(", {}", display::escape(message))).unwrap_or_default();
    }
    text
}

fn exact(provider: &str, id: &str, known: &Credential) -> Value {
    let status = known.status();
    let claim = known.claim().filter(|claim| claim.is_held(&Moment::now()));
    let time = |micros: i64| display::exact_time(u64::try_from(micros).unwrap_or(0));
    json!({
        "provider": provider,
        "id": id,
        "generation": known.generation(),
        "obtained": display::exact_time(known.obtained_micros()),
        "state": state(known),
        "code": status.and_then(|status| status.code),
        "reset": status.and_then(|status| status.reset_micros).map(time),
        "message": status.and_then(|status| status.message.clone())
            .or_else(|| known.claim()?.failure().map(str::to_owned)),
        "claim": claim.map(|claim| json!({
            "holder": claim.holder(),
            "left_seconds": claim.left(&Moment::now()).as_secs_f64(),
        })),
        "fields": known.fields().redacted(),
        "alternates": known.alternates().iter().map(|alternate| alternate.fields.redacted()).collect::<Vec<_>>(),
    })
}
