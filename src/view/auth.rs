//! Credentials as the log tells them. The order of the log is the arbiter, and the chain of generations decides: every
//! process sees the same winner of a claim, and the same current tokens.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::{AuthEvent, Fields, Origin, Status, StatusKind};
use crate::sys::Moment;

/// Fingerprints of as many replaced tokens are kept, so that an old copy of them is known for one.
const MOST_PAST: usize = 32;
/// As many alternates are kept.
const MOST_ALTERNATES: usize = 8;

type ById<T> = BTreeMap<String, BTreeMap<String, T>>;

/// Providers and credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthView {
    credentials: ById<Credential>,
    removed: ById<Removed>,
    active_provider: Option<String>,
    /// Sources, and whether their credentials are suppressed.
    sources: ById<bool>,
}

/// A credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    generation: u64,
    /// The first generation of this incarnation: what was said of the ones before is about another one.
    since: u64,
    /// The generation of the last login or import: an exchange of older tokens does not replace it.
    login: u64,
    fields: Fields,
    obtained: Moment,
    status: Option<Status>,
    claim: Option<Claim>,
    alternates: Vec<Alternate>,
    past: Vec<[u8; 16]>,
}

/// What is left of a credential that was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Removed {
    /// Its last generation: another incarnation begins after it.
    generation: u64,
    /// Fingerprints of its secrets: an old copy does not bring it back.
    past: Vec<[u8; 16]>,
    /// Names that were declared to be secrets in it.
    declared: Vec<String>,
}

/// Tokens that came back from an exchange and are not the current ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alternate {
    /// The generation that was exchanged for them.
    pub base: u64,
    /// All fields, as they would be if these were the current ones.
    pub fields: Fields,
    /// When they came back.
    pub obtained: Moment,
}

/// Somebody's claim to exchange the current tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub(crate) id: u64,
    holder: String,
    at: Moment,
    lease_micros: u64,
    /// Set when the exchange failed, with what is known of the reason.
    failure: Option<String>,
}

impl Claim {
    /// Whose it is, such as `session 1234`.
    #[must_use]
    pub fn holder(&self) -> &str {
        &self.holder
    }

    /// How much of the lease is left at `now`; zero when it has run out, or its holder's machine was started again.
    #[must_use]
    pub fn left(&self, now: &Moment) -> Duration {
        if now.is_other_boot(&self.at) {
            return Duration::ZERO;
        }
        let left = i128::from(self.lease_micros) - now.micros_since(&self.at).max(0);
        Duration::from_micros(u64::try_from(left).unwrap_or(0))
    }

    /// Why the exchange failed, if it is known to have.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Whether somebody may be exchanging the tokens at `now`.
    #[must_use]
    pub fn is_held(&self, now: &Moment) -> bool {
        self.failure.is_none() && !self.left(now).is_zero()
    }
}

impl Credential {
    /// The count of its token changes, from 1.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Its fields, tokens included.
    #[must_use]
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// When its tokens came back, in microseconds since the epoch (UTC).
    #[must_use]
    pub fn obtained_micros(&self) -> u64 {
        self.obtained.wall_micros
    }

    /// What using these tokens showed, if anybody said.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        self.status.as_ref()
    }

    /// The newest claim to exchange these tokens.
    #[must_use]
    pub fn claim(&self) -> Option<&Claim> {
        self.claim.as_ref()
    }

    /// Whether it is not known what became of the tokens: who claimed to exchange them never said, and its lease has run
    /// out. They may still be good; if the server had consumed them, only a login helps.
    #[must_use]
    pub fn is_unknown(&self, now: &Moment) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.failure.is_none() && claim.left(now).is_zero())
    }

    /// Whether the server refused these tokens: only a login helps.
    #[must_use]
    pub fn needs_login(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.kind == StatusKind::LoginRequired)
    }

    /// Whether the current tokens came from an exchange, not from a login or import.
    #[must_use]
    pub fn is_refreshed(&self) -> bool {
        self.generation > self.login
    }

    /// Tokens beside the current ones, oldest first.
    #[must_use]
    pub fn alternates(&self) -> &[Alternate] {
        &self.alternates
    }

    /// Whether these are secrets that it has now, or had once: nothing new.
    #[must_use]
    pub fn knows(&self, fields: &Fields) -> bool {
        let wanted = fields.fingerprint();
        self.fields.fingerprint() == wanted
            || self.past.contains(&wanted)
            || self.alternates.iter().any(|alternate| alternate.fields.fingerprint() == wanted)
    }

    /// The next generation.
    fn replace(&mut self, fields: Fields, obtained: Moment) {
        self.past.push(self.fields.fingerprint());
        if self.past.len() > MOST_PAST {
            self.past.remove(0);
        }
        (self.fields, self.obtained) = (fields, obtained);
        (self.status, self.claim) = (None, None);
        self.generation += 1;
    }

    fn keep_beside(&mut self, base: u64, fields: Fields, obtained: Moment) {
        if self.alternates.len() == MOST_ALTERNATES {
            self.alternates.remove(0);
        }
        self.alternates.push(Alternate { base, fields, obtained });
    }

    /// What an exchange of generation `base` gave.
    fn refreshed(&mut self, base: u64, fields: &Fields, obtained: Moment) {
        if base >= self.generation {
            // The server honoured the current tokens, so what stood beside them belongs to a chain that is over. (A base
            // above the current generation means that a damaged stretch has taken an event away.)
            self.alternates.clear();
            self.replace(fields.clone(), obtained);
            self.generation = base.saturating_add(1).max(self.generation);
        } else if base >= self.login && obtained.micros_since(&self.obtained) > 0 {
            // A holder outlived its lease, and its tokens came back later than those of the second: the server counts the
            // later ones.
            let (old, old_obtained) = (self.fields.clone(), self.obtained);
            self.replace(fields.clone(), obtained);
            self.keep_beside(base, old, old_obtained);
        } else {
            self.keep_beside(base, fields.clone(), obtained);
        }
    }

    fn set(&mut self, fields: &Fields, obtained: Moment, keeps_old: bool) {
        let fields = fields.declaring(self.fields.declared()); // a secret stays one
        if self.fields.has_secrets_of(&fields) {
            self.fields = fields; // another label, the same tokens
            return;
        }
        let (old, old_obtained, base) = (self.fields.clone(), self.obtained, self.generation);
        self.alternates.clear();
        self.replace(fields, obtained);
        self.login = self.generation;
        if keeps_old {
            self.keep_beside(base, old, old_obtained);
        }
    }
}

impl AuthView {
    /// One credential.
    #[must_use]
    pub fn credential(&self, provider: &str, credential: &str) -> Option<&Credential> {
        self.credentials.get(provider)?.get(credential)
    }

    /// All credentials, by provider and id.
    pub fn credentials(&self) -> impl Iterator<Item = (&str, &str, &Credential)> {
        self.credentials.iter().flat_map(|(provider, by_id)| {
            by_id.iter().map(move |(id, credential)| (provider.as_str(), id.as_str(), credential))
        })
    }

    /// Whether it was there once, with these secrets, and was removed.
    #[must_use]
    pub fn is_removed(&self, provider: &str, credential: &str, fields: &Fields) -> bool {
        let removed = self.removed.get(provider).and_then(|ids| ids.get(credential));
        removed.is_some_and(|removed| removed.past.contains(&fields.fingerprint()))
    }

    /// Fields from elsewhere, with the names that were declared to be secrets in this credential.
    pub(crate) fn declared(&self, provider: &str, credential: &str, fields: &Fields) -> Fields {
        let removed = || Some(&*self.removed.get(provider)?.get(credential)?.declared);
        let known = self.credential(provider, credential).map(|known| known.fields().declared());
        fields.declaring(known.or_else(removed).unwrap_or_default())
    }

    /// The provider that is used unless another one is asked for.
    #[must_use]
    pub fn active_provider(&self) -> Option<&str> {
        self.active_provider.as_deref()
    }

    /// Whether credentials from this source are not taken in.
    #[must_use]
    pub fn is_suppressed(&self, provider: &str, source: &str) -> bool {
        self.sources.get(provider).and_then(|sources| sources.get(source)) == Some(&true)
    }

    /// Sources of which something was said: provider, source, whether it is suppressed.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        self.sources.iter().flat_map(|(provider, sources)| {
            sources.iter().map(move |(source, is_suppressed)| (provider.as_str(), source.as_str(), *is_suppressed))
        })
    }

    fn of_generation(&mut self, provider: &str, id: &str, generation: u64) -> Option<&mut Credential> {
        let credential = self.credentials.get_mut(provider)?.get_mut(id)?;
        (credential.generation == generation).then_some(credential)
    }

    /// Applies one event.
    pub(crate) fn apply(&mut self, origin: &Origin<'_>, event: &AuthEvent) {
        match event {
            AuthEvent::CredentialSet { provider, credential, fields, obtained, keeps_old } => {
                let removed = self.removed.get_mut(provider).and_then(|ids| ids.remove(credential));
                let before = removed.map_or(0, |removed| removed.generation);
                let by_id = self.credentials.entry(provider.clone()).or_default();
                match by_id.get_mut(credential) {
                    Some(known) => known.set(fields, *obtained, *keeps_old),
                    None => {
                        let first = before.saturating_add(1);
                        let born = Credential {
                            generation: first,
                            since: first,
                            login: first,
                            fields: fields.clone(),
                            obtained: *obtained,
                            status: None,
                            claim: None,
                            alternates: Vec::new(),
                            past: Vec::new(),
                        };
                        by_id.insert(credential.clone(), born);
                    }
                }
            }
            AuthEvent::RefreshClaimed { provider, credential, generation, claim, at, lease_micros } => {
                let Some(known) = self.of_generation(provider, credential, *generation) else { return };
                if known.needs_login() || known.claim.as_ref().is_some_and(|earlier| earlier.is_held(at)) {
                    return; // lost
                }
                let holder = format!("{} {}", origin.kind, origin.process);
                let lease_micros = *lease_micros;
                known.claim = Some(Claim { id: *claim, holder, at: *at, lease_micros, failure: None });
            }
            AuthEvent::Refreshed { provider, credential, base, fields, obtained, .. } => {
                let known = self.credentials.get_mut(provider).and_then(|by_id| by_id.get_mut(credential));
                // What belongs to a credential that was removed went with it, whatever came in its place.
                if let Some(known) = known.filter(|known| *base >= known.since) {
                    known.refreshed(*base, fields, *obtained);
                }
            }
            AuthEvent::RefreshFailed { provider, credential, generation, claim, refused, message } => {
                let Some(known) = self.of_generation(provider, credential, *generation) else { return };
                // Of a holder that outlived its lease it says nothing about the exchange that is under way.
                let Some(own) = known.claim.as_mut().filter(|own| own.id == *claim) else { return };
                own.failure = Some(message.clone());
                if *refused {
                    known.status =
                        Some(Status { message: Some(message.clone()), ..Status::of(StatusKind::LoginRequired) });
                }
            }
            AuthEvent::Status { provider, credential, generation, status } => {
                if let Some(known) = self.of_generation(provider, credential, *generation) {
                    known.status = Some(status.clone());
                }
            }
            AuthEvent::Removed { provider, credential } => {
                let known = self.credentials.get_mut(provider).and_then(|by_id| by_id.remove(credential));
                if let Some(Credential { generation, fields, mut past, .. }) = known {
                    past.push(fields.fingerprint());
                    let declared = fields.declared().to_vec();
                    let removed = self.removed.entry(provider.clone()).or_default();
                    removed.insert(credential.clone(), Removed { generation, past, declared });
                }
                self.credentials.retain(|_, by_id| !by_id.is_empty());
            }
            AuthEvent::ActiveProvider { provider } => self.active_provider.clone_from(provider),
            AuthEvent::SourceSuppressed { provider, source } => {
                self.sources.entry(provider.clone()).or_default().insert(source.clone(), true);
            }
            AuthEvent::Unsuppressed { provider, source } => {
                self.sources.entry(provider.clone()).or_default().insert(source.clone(), false);
            }
        }
    }
}
