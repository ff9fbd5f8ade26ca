//! One exchange for each generation: the claim is in the log, on the disk, before the network is called.

use std::time::{Duration, Instant};

use crate::auth::Auth;
use crate::error::{Error, Result};
use crate::event::{AuthEvent, Fields};
use crate::sys::{self, Moment};
use crate::view::auth::Credential;

/// The longest lease: a holder that died is waited for as long.
const MOST_LEASE: Duration = Duration::from_secs(3600);

/// As many claims that have run out, or were beaten, before they were on the disk, and the lease is too short.
const MOST_CLAIMS: u32 = 16;

/// How long a refresh may take.
#[derive(Clone, Copy, Debug)]
pub struct RefreshOptions {
    /// From the claim until somebody else may try; longer than the exchange can take, with its own time limit.
    pub lease: Duration,
    /// How long to wait while another process refreshes.
    pub wait: Duration,
}

impl Default for RefreshOptions {
    fn default() -> Self {
        RefreshOptions { lease: Duration::from_secs(30), wait: Duration::from_secs(60) }
    }
}

/// Why an exchange gave no tokens. The texts are for people; secrets of the credential are taken out of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefreshFailure {
    /// The server refused the tokens (`invalid_grant` of RFC 6749, section 5.2): nobody tries again before the next login.
    Refused(String),
    /// Anything else: no network, a server error. The next one may try again.
    Failed(String),
}

/// What became of a [`begin_refresh`](Auth::begin_refresh).
#[derive(Debug)]
pub enum Begun<'a> {
    /// The claim is this process's: call the network now, then commit.
    Won(Ticket<'a>),
    /// Another process is at it.
    Held {
        /// Who, such as `session 1234`.
        holder: String,
        /// How much of its lease is left.
        left: Duration,
    },
    /// There is a newer generation already: this one.
    Superseded(u64),
}

/// What a refresh came to, here or elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refreshed {
    /// The current generation.
    pub generation: u64,
    /// Its fields.
    pub fields: Fields,
    /// Whether this process made the exchange.
    pub is_own: bool,
}

/// The right to exchange a credential's tokens, until the lease runs out.
///
/// Dropped without [`commit`](Self::commit) or [`fail`](Self::fail), as with a process that dies, it leaves the claim
/// standing until its lease runs out: nobody can know whether the server has consumed the tokens.
#[derive(Debug)]
pub struct Ticket<'a> {
    auth: &'a mut Auth,
    provider: String,
    credential: String,
    generation: u64,
    claim: u64,
    fields: Fields,
    answered: Option<Moment>,
}

impl Auth {
    /// Claims the exchange of a generation's tokens. When it has [won](Begun::Won), the claim is on the disk.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::LoginRequired`] if the server refused these tokens before; [`Error::Invalid`] for a
    /// lease of zero or over an hour, or a generation that does not exist yet; as [`set`](Self::set).
    pub fn begin_refresh(
        &mut self,
        provider: &str,
        credential: &str,
        generation: u64,
        lease: Duration,
    ) -> Result<Begun<'_>> {
        if lease.is_zero() || lease > MOST_LEASE {
            let found = format!("{} s", lease.as_secs_f64());
            return Err(Error::Invalid { what: "lease", found, allowed: "more than nothing, at most an hour" });
        }
        let lease_micros = u64::try_from(lease.as_micros()).unwrap_or(u64::MAX);
        self.refresh()?;
        for _ in 0..MOST_CLAIMS {
            let known = self.known(provider, credential)?;
            if generation < known.generation() {
                return Ok(Begun::Superseded(known.generation()));
            }
            if generation > known.generation() {
                let (found, allowed) = (generation.to_string(), "one that the view has shown");
                return Err(Error::Invalid { what: "generation", found, allowed });
            }
            if known.needs_login() {
                return Err(refused(provider, credential, known));
            }
            let at = Moment::now();
            if let Some(claim) = known.claim().filter(|claim| claim.is_held(&at)) {
                return Ok(Begun::Held { holder: claim.holder().to_owned(), left: claim.left(&at) });
            }
            let claim = u64::from_le_bytes(sys::random());
            let (provider, credential) = (provider.to_owned(), credential.to_owned());
            self.append(AuthEvent::RefreshClaimed {
                provider: provider.clone(),
                credential: credential.clone(),
                generation,
                claim,
                at,
                lease_micros,
            })?;
            // The order of the log has decided. A claim whose lease ran out before it was in the log is no claim.
            let known = self.known(&provider, &credential)?;
            let is_own = known.claim().is_some_and(|winner| winner.id == claim && winner.is_held(&Moment::now()));
            if is_own && known.generation() == generation {
                let fields = known.fields().clone();
                tracing::debug!(provider, credential, generation, "refresh claimed");
                return Ok(Begun::Won(Ticket {
                    auth: self,
                    provider,
                    credential,
                    generation,
                    claim,
                    fields,
                    answered: None,
                }));
            }
        }
        let (found, allowed) = (format!("{} s", lease.as_secs_f64()), "longer than it takes to append to the disk");
        Err(Error::Invalid { what: "lease", found, allowed })
    }

    /// Refreshes a credential whose tokens of `generation` are not good any more: `exchange` runs in one of all processes
    /// that ask, without any lock held; the others wait for its result, at most [`RefreshOptions::wait`].
    ///
    /// `exchange` gets the current fields and returns those that the server gave; what it leaves out stays as it was.
    ///
    /// # Errors
    /// [`Error::RefreshFailed`] and [`Error::LoginRequired`] for what `exchange` returned, here or in the process that had
    /// the claim; [`Error::RefreshTimeout`]; as [`begin_refresh`](Self::begin_refresh).
    pub fn refresh_with(
        &mut self,
        provider: &str,
        credential: &str,
        generation: u64,
        options: RefreshOptions,
        exchange: impl FnOnce(&Fields) -> std::result::Result<Fields, RefreshFailure>,
    ) -> Result<Refreshed> {
        let start = Instant::now();
        loop {
            match self.begin_refresh(provider, credential, generation, options.lease)? {
                Begun::Won(mut ticket) => {
                    let answer = exchange(&ticket.fields);
                    ticket.answered();
                    let answer = answer.and_then(|fields| if fields.is_blank() { Err(blank()) } else { Ok(fields) });
                    match answer {
                        Ok(fields) => ticket.commit(&fields)?,
                        Err(failure) => {
                            let error = ticket.error(&failure);
                            ticket.fail(failure)?;
                            // Whose lease had run out is told of tokens that are gone.
                            let is_newer = self.known(provider, credential)?.generation() > generation;
                            return if is_newer { self.current(provider, credential, false) } else { Err(error) };
                        }
                    };
                    return self.current(provider, credential, true);
                }
                Begun::Superseded(_) => return self.current(provider, credential, false),
                Begun::Held { .. } => {
                    let left = options.wait.saturating_sub(start.elapsed());
                    if self.wait_for_generation(provider, credential, generation, left)?.is_none()
                        && let Some(message) = self.known(provider, credential)?.claim().and_then(|c| c.failure())
                    {
                        // One exchange for all who asked while it ran, also when it failed.
                        return Err(match self.known(provider, credential)? {
                            known if known.needs_login() => refused(provider, credential, known),
                            _ => failed(provider, credential, message),
                        });
                    }
                }
            }
        }
    }

    fn current(&self, provider: &str, credential: &str, is_own: bool) -> Result<Refreshed> {
        let known = self.known(provider, credential)?;
        Ok(Refreshed { generation: known.generation(), fields: known.fields().clone(), is_own })
    }
}

impl Ticket<'_> {
    /// The fields to exchange.
    #[must_use]
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// The generation of these fields.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Notes that the answer has come now. Of two answers for one generation the later is the one that the server counts,
    /// so whoever does something else before [`commit`](Self::commit) says it first.
    pub fn answered(&mut self) {
        self.answered.get_or_insert_with(Moment::now);
    }

    /// Puts the answer's fields into the log, over those that were there. Returns the generation that they are current in;
    /// `None`: another exchange was faster, or there was a login, and they stand beside the current ones as an alternate
    /// (or the credential was removed).
    ///
    /// # Errors
    /// As [`Auth::set`]. After [`Error::NotDurable`] they are in the log, and a power loss may take them.
    pub fn commit(mut self, answer: &Fields) -> Result<Option<u64>> {
        self.answered();
        let fields = self.fields.with(answer);
        let obtained = self.answered.unwrap_or_else(Moment::now);
        let (provider, credential) = (self.provider.clone(), self.credential.clone());
        let (base, claim) = (self.generation, self.claim);
        let committed = fields.clone();
        self.auth.append(AuthEvent::Refreshed { provider, credential, base, claim, fields, obtained })?;
        let known = self.auth.view().credential(&self.provider, &self.credential);
        let current = known.filter(|known| *known.fields() == committed).map(Credential::generation);
        tracing::debug!(provider = self.provider, credential = self.credential, base, ?current, "refreshed");
        Ok(current)
    }

    /// Puts into the log that the exchange failed.
    ///
    /// # Errors
    /// As [`Auth::set`].
    pub fn fail(self, failure: RefreshFailure) -> Result<()> {
        let (refused, message) = match failure {
            RefreshFailure::Refused(message) => (true, message),
            RefreshFailure::Failed(message) => (false, message),
        };
        let message = self.fields.redact_text(&message);
        tracing::debug!(provider = self.provider, credential = self.credential, refused, message, "refresh failed");
        self.auth.append(AuthEvent::RefreshFailed {
            provider: self.provider,
            credential: self.credential,
            generation: self.generation,
            claim: self.claim,
            refused,
            message,
        })
    }

    fn error(&self, failure: &RefreshFailure) -> Error {
        let (provider, credential) = (self.provider.clone(), self.credential.clone());
        match failure {
            RefreshFailure::Refused(text) => {
                Error::LoginRequired { provider, credential, message: self.fields.redact_text(text) }
            }
            RefreshFailure::Failed(text) => {
                Error::RefreshFailed { provider, credential, message: self.fields.redact_text(text) }
            }
        }
    }
}

fn blank() -> RefreshFailure {
    RefreshFailure::Failed("the exchange gave no fields".into())
}

fn refused(provider: &str, credential: &str, known: &Credential) -> Error {
    let message = known.status().and_then(|status| status.message.clone()).unwrap_or_else(|| "no reason given".into());
    Error::LoginRequired { provider: provider.into(), credential: credential.into(), message }
}

fn failed(provider: &str, credential: &str, message: &str) -> Error {
    Error::RefreshFailed { provider: provider.into(), credential: credential.into(), message: message.into() }
}
