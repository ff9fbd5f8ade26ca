//! `auth.json` of Hermes: credentials taken in from it, and written into it for those who read it.
//!
//! `{"version": 1, "providers": {ID: STATE}, "credential_pool": {PROVIDER: [{"id": ID, ...}]}, "suppressed_sources":
//! {PROVIDER: [SOURCE]}, "active_provider": ID, "updated_at": TIME, ...}`; what else stands there stays.

mod salvage;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::auth::{Auth, PROVIDER_STATE};
use crate::budgets;
use crate::error::{At, Error, Result};
use crate::event::{AuthEvent, Fields, Status, StatusKind};
use crate::lock::Lock;
use crate::log::folder::Folder;
use crate::sys::file::{self, Stat};
use crate::sys::replace::{Like, replace};
use crate::sys::{self, Moment, tree};
use crate::view::auth::{AuthView, Credential};
use crate::view::records::{format_time, parse_time};

/// Mode of the file, whatever it was before: it holds secrets.
const FILE_MODE: u32 = 0o600;
/// Mode of the locks, as Hermes makes them, before the umask.
const LOCK_MODE: u32 = 0o644;

/// What a credential needs in a frame beside its texts, generously.
const OVERHEAD_LEN: usize = 256;

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Credentials that were not there, or have other secrets than any before: a new generation.
    pub new: usize,
    /// Credentials whose secrets are the current ones, and whose other fields were taken over.
    pub updated: usize,
    /// Credentials that are in the log as they stand in the file.
    pub unchanged: usize,
    /// Credentials whose secrets the log knows as replaced or removed: an old copy, passed over.
    pub old: usize,
    /// What is wrong with the file, as phrases for people without secrets.
    pub problems: Vec<String>,
}

/// What an export did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Credentials written.
    pub written: usize,
    /// Credentials whose secrets in the file are not known to the log, left as they are: import the file first.
    pub unknown: Vec<String>,
    /// Where a damaged file was set aside.
    pub set_aside: Option<PathBuf>,
}

/// A file that was read.
#[derive(Debug, Default)]
struct Found {
    stat: Option<Stat>,
    bytes: Vec<u8>,
    object: Map<String, Value>,
    problems: Vec<String>,
}

impl Found {
    /// Not there is nothing; unreadable is an error, never nothing. What is no file is not read: it could be endless, and
    /// must not be replaced.
    fn read(path: &Path) -> Result<Found> {
        if tree::kind(path)?.is_some_and(|kind| kind != tree::Kind::File) {
            return Err(Error::Invalid {
                what: "file of credentials",
                found: path.display().to_string(),
                allowed: "a regular file, or the name of a new one",
            });
        }
        let bytes = match file::read(path) {
            Err(e) if e.is_not_found() => return Ok(Found::default()),
            other => other?,
        };
        let (object, problems) = salvage::decode(&bytes);
        Ok(Found { stat: Some(file::stat(path)?), bytes, object, problems })
    }

    /// Every credential in it, by provider and id.
    fn credentials(&mut self) -> Vec<(String, String, Fields)> {
        let mut found = Vec::new();
        let mut problems = Vec::new();
        for (provider, state) in objects(&self.object, "providers") {
            match state {
                Value::Object(state) => {
                    found.push((provider, PROVIDER_STATE.to_owned(), Fields::new(state, Vec::new())))
                }
                _ => problems.push(format!("the state of provider {provider:?} is not an object")),
            }
        }
        for (provider, list) in objects(&self.object, "credential_pool") {
            let Value::Array(list) = list else {
                problems.push(format!("the pool of provider {provider:?} is not a list"));
                continue;
            };
            for (place, entry) in list.into_iter().enumerate() {
                let Value::Object(entry) = entry else {
                    problems.push(format!("entry {place} of the pool of {provider:?} is not an object"));
                    continue;
                };
                match entry.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()).map(str::to_owned) {
                    Some(id) => found.push((provider.clone(), id, Fields::new(entry, Vec::new()))),
                    None => problems.push(format!("entry {place} of the pool of {provider:?} has no id")),
                }
            }
        }
        self.problems.append(&mut problems);
        found
    }
}

fn objects(object: &Map<String, Value>, name: &str) -> Map<String, Value> {
    object.get(name).and_then(Value::as_object).cloned().unwrap_or_default()
}

impl Auth {
    /// Takes in the credentials of an `auth.json`. The file is only read. Secrets that the log has replaced or removed do
    /// not come back from an old copy; secrets that it never saw become current, and those that were stay as an alternate.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, and nothing is appended; as [`set`](Self::set).
    pub fn import(&mut self, path: &Path) -> Result<Imported> {
        file::stat(path)?; // a file that is not there is a mistake here
        let mut file = Found::read(&file::resolve(path)?)?;
        let mut imported = Imported::default();
        let (mut events, mut statuses) = (Vec::new(), Vec::new());
        let most_len = self.writer()?.max_payload_len()?;
        self.refresh()?;
        for (provider, credential, fields) in file.credentials() {
            let fields = self.view().declared(&provider, &credential, &fields);
            if let Err(e) = check_fits(&provider, &credential, &fields, most_len) {
                file.problems.push(e);
                continue;
            }
            if let Some(status) = status_in(&fields) {
                statuses.push((provider.clone(), credential.clone(), status));
            }
            let known = self.view().credential(&provider, &credential);
            let has_current = known.is_some_and(|known| known.fields().has_secrets_of(&fields));
            let is_old = !has_current && known.is_some_and(|known| known.knows(&fields))
                || self.view().is_removed(&provider, &credential, &fields);
            if is_old {
                imported.old += 1;
                continue;
            }
            if known.is_some_and(|known| known.fields().reveal() == fields.reveal()) {
                imported.unchanged += 1;
                continue;
            }
            *(if has_current { &mut imported.updated } else { &mut imported.new }) += 1;
            let (obtained, keeps_old) = (Moment::now(), true);
            events.push(AuthEvent::CredentialSet { provider, credential, fields, obtained, keeps_old });
        }
        if let Some(active) = file.object.get("active_provider").and_then(Value::as_str).filter(|name| !name.is_empty())
            && self.view().active_provider() != Some(active)
        {
            events.push(AuthEvent::ActiveProvider { provider: Some(active.to_owned()) });
        }
        for (provider, sources) in objects(&file.object, "suppressed_sources") {
            let sources = sources.as_array().into_iter().flatten().filter_map(Value::as_str);
            for source in sources.filter(|source| !self.view().is_suppressed(&provider, source)) {
                events.push(AuthEvent::SourceSuppressed { provider: provider.clone(), source: source.to_owned() });
            }
        }
        self.append_all(events)?;
        self.append_all(statuses.into_iter().filter_map(|of| self.status_event(of)).collect())?;
        imported.problems = file.problems;
        Ok(imported)
    }

    /// What the file says of the use of a credential, unless it is about other secrets, or known.
    fn status_event(&self, (provider, credential, status): (String, String, Status)) -> Option<AuthEvent> {
        let known = self.view().credential(&provider, &credential)?;
        let is_new = known.status() != Some(&status) && status_in(known.fields()).as_ref() == Some(&status);
        let generation = known.generation();
        is_new.then_some(AuthEvent::Status { provider, credential, generation, status })
    }

    /// Writes the credentials into an `auth.json` that Hermes reads, under Hermes's own locks, which are held only for
    /// reading, merging and replacing it. What else stands in the file stays; a symlink is followed; owner and group stay;
    /// the mode is 0600.
    ///
    /// # Errors
    /// [`Error::LockTimeout`], [`Error::Io`]: the file is as it was.
    pub fn export(&mut self, path: &Path) -> Result<Exported> {
        // The locks are named after the file itself, not after a symlink to it, and are in its folder.
        let target = file::resolve(&std::path::absolute(path).at("find", path)?)?;
        let _locks = take_locks(&target)?;
        let mut found = Found::read(&target)?;
        self.refresh()?;
        let mut exported = Exported::default();
        if !found.problems.is_empty() {
            exported.set_aside = Some(self.keep_damaged(&found.bytes)?);
        }
        merge(self.view(), &mut found.object, &mut exported);
        let mut text = serde_json::to_vec_pretty(&found.object).unwrap_or_default();
        text.push(b'\n');
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let temporary = target.with_file_name(format!("{name}.tmp.hermes-log-{}", sys::fresh_suffix()));
        let like = Like { old: found.stat.as_ref(), new_mode: FILE_MODE, mode: Some(FILE_MODE) };
        replace(&target, &temporary, &text, like)?;
        file::sync_folder(target.parent().unwrap_or(&target))?;
        Ok(exported)
    }

    fn keep_damaged(&mut self, bytes: &[u8]) -> Result<PathBuf> {
        let folder = Folder::create(&self.profile.log_folder(), self.profile.options().allow_network_fs)?;
        let aside = folder.damaged_path(&format!("auth-{}.json", sys::fresh_suffix()))?;
        folder.publish(&aside, bytes, true)?;
        Ok(aside)
    }
}

/// Hermes's locks: `auth.lock`, in newer versions `auth.json.lock`; whichever are there, in this order, or both.
fn take_locks(target: &Path) -> Result<Vec<Lock>> {
    let mut longer = target.as_os_str().to_owned();
    longer.push(".lock");
    let mut both = vec![target.with_extension("lock"), PathBuf::from(longer)];
    both.dedup(); // a name without an extension: this process must not wait for itself
    let mut here = Vec::new();
    for path in &both {
        if file::stat_if_there(path)?.is_some() {
            here.push(path);
        }
    }
    let wanted = if here.is_empty() { both.iter().collect() } else { here };
    let budget = budgets::AUTH_FILE;
    wanted.into_iter().map(|path| Lock::take(path, LOCK_MODE, budget, budget.wait_limit)).collect()
}

/// Lays what the log says over what the file says.
fn merge(view: &AuthView, object: &mut Map<String, Value>, exported: &mut Exported) {
    let mut by_provider = BTreeMap::<&str, Vec<(&str, &Credential)>>::new();
    for (provider, id, credential) in view.credentials() {
        by_provider.entry(provider).or_default().push((id, credential));
    }
    let fields_of = |provider: &str, id: &str, entry: &Value| {
        Some(view.declared(provider, id, &Fields::new(entry.as_object()?.clone(), Vec::new())))
    };

    let mut providers = objects(object, "providers");
    providers.retain(|name, state| {
        !fields_of(name, PROVIDER_STATE, state).is_some_and(|fields| view.is_removed(name, PROVIDER_STATE, &fields))
    });
    let mut pool = objects(object, "credential_pool");
    for (provider, list) in &mut pool {
        let Some(list) = list.as_array_mut() else { continue };
        list.retain(|entry| {
            let id = entry.get("id").and_then(Value::as_str).unwrap_or_default();
            !fields_of(provider, id, entry).is_some_and(|fields| view.is_removed(provider, id, &fields))
        });
    }
    for (provider, credentials) in by_provider {
        for (id, credential) in credentials {
            let list = (id != PROVIDER_STATE).then(|| {
                let list = pool.entry(provider).or_insert_with(|| json!([]));
                if !list.is_array() {
                    *list = json!([]);
                }
                list
            });
            let there = match &list {
                None => providers.get(provider),
                Some(list) => list.as_array().into_iter().flatten().find(|entry| is_of(entry, id)),
            };
            if there
                .and_then(|there| fields_of(provider, id, there))
                .is_some_and(|fields| fields.has_secrets() && !credential.knows(&fields))
            {
                exported.unknown.push(format!("{provider} {id}"));
                continue;
            }
            exported.written += 1;
            let entry = entry_of(credential, id);
            match list.and_then(Value::as_array_mut) {
                None => drop(providers.insert(provider.to_owned(), entry)),
                Some(list) => match list.iter_mut().find(|entry| is_of(entry, id)) {
                    Some(there) => *there = entry,
                    None => list.push(entry),
                },
            }
        }
    }
    object.insert("providers".into(), Value::Object(providers));
    if !pool.is_empty() {
        object.insert("credential_pool".into(), Value::Object(pool));
    }
    let mut suppressed = objects(object, "suppressed_sources");
    for (provider, source, is_suppressed) in view.sources() {
        let list = suppressed.entry(provider).or_insert_with(|| json!([]));
        let Some(list) = list.as_array_mut() else { continue };
        list.retain(|other| other != source);
        if is_suppressed {
            list.push(source.into());
        }
    }
    suppressed.retain(|_, list| list.as_array().is_none_or(|list| !list.is_empty()));
    if !suppressed.is_empty() || object.contains_key("suppressed_sources") {
        object.insert("suppressed_sources".into(), Value::Object(suppressed));
    }
    if let Some(active) = view.active_provider() {
        object.insert("active_provider".into(), active.into());
    }
    object.entry("version").or_insert_with(|| 1.into());
    object.insert("updated_at".into(), format_time(i64::try_from(sys::now_micros()).unwrap_or(i64::MAX)).into());
}

fn is_of(entry: &Value, id: &str) -> bool {
    entry.get("id").and_then(Value::as_str) == Some(id)
}

/// Why a credential of the file cannot be in the log.
fn check_fits(provider: &str, credential: &str, fields: &Fields, most_len: usize) -> std::result::Result<(), String> {
    let left_out = |why: String| format!("{credential:.40?} of provider {provider:.40?} is left out: {why}");
    let named = AuthEvent::Removed { provider: provider.to_owned(), credential: credential.to_owned() };
    named.validate().map_err(|e| left_out(e.to_string()))?;
    let most_len = most_len.saturating_sub(OVERHEAD_LEN + provider.len() + credential.len());
    match fields.reveal().len() {
        len if len > most_len => Err(left_out(format!("it has {len} bytes, and {most_len} fit into the log"))),
        _ => Ok(()),
    }
}

/// What `auth.json` says of the use of a credential, as [`entry_of`] writes it.
fn status_in(fields: &Fields) -> Option<Status> {
    let entry = fields.redacted();
    let kind = match entry.get("last_status")?.as_str()? {
        "ok" => StatusKind::Ok,
        "exhausted" => StatusKind::Exhausted,
        "dead" => StatusKind::LoginRequired,
        _ => return None,
    };
    let reset_micros = match entry.get("last_error_reset_at") {
        Some(Value::String(time)) => parse_time(time),
        Some(seconds) => seconds.as_f64().map(|seconds| (seconds * 1e6) as i64),
        None => None,
    };
    let message = entry.get("last_error_message").and_then(Value::as_str).map(str::to_owned);
    Some(Status { kind, code: entry.get("last_error_code").and_then(Value::as_i64), reset_micros, message })
}

/// A credential as Hermes has it: its fields, and what is known of its use.
fn entry_of(credential: &Credential, id: &str) -> Value {
    let mut entry: Map<String, Value> = serde_json::from_str(credential.fields().reveal()).unwrap_or_default();
    if id != PROVIDER_STATE {
        entry.insert("id".into(), id.into());
    }
    match credential.status() {
        Some(status) if status_in(credential.fields()).as_ref() == Some(status) => {} // to the letter
        Some(Status { kind, code, reset_micros, message }) => {
            let word = if *kind == StatusKind::LoginRequired { "dead" } else { kind.as_str() };
            entry.insert("last_status".into(), word.into());
            entry.insert("last_error_code".into(), json!(code));
            entry.insert("last_error_message".into(), json!(message));
            entry.insert("last_error_reset_at".into(), json!(reset_micros.map(|micros| micros as f64 / 1e6)));
        }
        // What stands there is about tokens that are gone.
        None if credential.is_refreshed() => {
            for (name, value) in &mut entry {
                if name.starts_with("last_status") || name.starts_with("last_error") {
                    *value = Value::Null;
                }
            }
        }
        None => {}
    }
    Value::Object(entry)
}
