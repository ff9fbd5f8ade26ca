//! Credentials that many processes share: reading is the view, without a lock; a refresh is claimed in the log before the
//! network is called, and no lock is held during the call.
//!
//! ```no_run
//! use hermes_log::auth::{RefreshFailure, RefreshOptions};
//! use hermes_log::{Fields, Origin, Profile};
//!
//! # fn ask_the_token_endpoint(fields: &Fields) -> Result<Fields, RefreshFailure> { Ok(fields.clone()) }
//! let mut auth = Profile::from_env()?.auth(Origin::here("session"))?;
//! let credential = auth.view().credential("nous", "main").ok_or("log in first")?;
//! let generation = credential.generation();
//! // The server says that the token has expired: one of all processes exchanges it, the others take over the result.
//! let now = auth.refresh_with("nous", "main", generation, RefreshOptions::default(), |fields| {
//!     ask_the_token_endpoint(fields)
//! })?;
//! println!("generation {}, token {:?}", now.generation, now.fields.text("access_token")); // prints [redacted]
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What is guaranteed: every event here is acknowledged when it is on the disk. A claim is on the disk before
//! [`Auth::begin_refresh`] returns it, so an answer that died with its process is known to be lost: the credential is
//! *unknown* until somebody tries again or logs in, and its tokens stay. Tokens that came back are current or an alternate,
//! unless their credential was removed meanwhile.

mod file;
mod refresh;

use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::event::{AuthEvent, Event, Fields, Origin, Status};
use crate::log::writer::{Durability, Writer};
use crate::profile::Profile;
use crate::sys::Moment;
use crate::view::View;
use crate::view::auth::{AuthView, Credential};

pub use crate::event::PROVIDER_STATE;
pub use file::{Exported, Imported};
pub use refresh::{Begun, RefreshFailure, RefreshOptions, Refreshed, Ticket};

/// How long an own append may take to be seen; it is there at once, unless the log is replaced meanwhile.
const VISIBLE_LIMIT: Duration = Duration::from_secs(10);
/// First and longest pause between two looks at the log while somebody else refreshes.
const POLL: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

/// The credentials of a profile, as one process reads and changes them.
#[derive(Debug)]
pub struct Auth {
    profile: Profile,
    origin: Origin<'static>,
    view: View,
    /// Opened at the first change: who only reads makes nothing.
    writer: Option<Writer>,
}

impl Auth {
    pub(crate) fn open(profile: &Profile, origin: Origin<'static>) -> Result<Auth> {
        let view = View::open_auth(profile.place())?;
        Ok(Auth { profile: profile.clone(), origin, view, writer: None })
    }

    /// Providers and credentials as of the last change or [`refresh`](Self::refresh).
    #[must_use]
    pub fn view(&self) -> &AuthView {
        self.view.auth()
    }

    /// What cannot be read of the log above the newest checkpoint.
    #[must_use]
    pub fn gaps(&self) -> &[crate::log::Gap] {
        self.view.gaps_met()
    }

    /// Takes in what is new. No lock, no wait, nothing written.
    ///
    /// # Errors
    /// As [`View::refresh`].
    pub fn refresh(&mut self) -> Result<&AuthView> {
        self.view.refresh()?;
        Ok(self.view.auth())
    }

    /// Sets a credential, as a login does. With other secrets than before it is a new generation, and the old secrets are
    /// gone with the next compactions; with the same, only the other fields change.
    ///
    /// # Errors
    /// [`Error::Invalid`] for names and sizes; [`Error::NotRecorded`], [`Error::NotDurable`].
    pub fn set(&mut self, provider: &str, credential: &str, fields: Fields) -> Result<u64> {
        self.append(AuthEvent::CredentialSet {
            provider: provider.to_owned(),
            credential: credential.to_owned(),
            fields,
            obtained: Moment::now(),
            keeps_old: false,
        })?;
        Ok(self.view().credential(provider, credential).map_or(0, Credential::generation))
    }

    /// Removes a credential. Who writes with an older view does not bring it back.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it is not there; as [`set`](Self::set).
    pub fn remove(&mut self, provider: &str, credential: &str) -> Result<()> {
        self.refresh()?;
        self.known(provider, credential)?;
        self.append(AuthEvent::Removed { provider: provider.into(), credential: credential.into() })
    }

    /// Says what using a generation's tokens showed. About an older one than the current it changes nothing.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn set_status(&mut self, provider: &str, credential: &str, generation: u64, status: Status) -> Result<()> {
        let message = status.message.as_deref().map(|text| self.without_secrets(provider, credential, text));
        let (provider, credential, status) = (provider.into(), credential.into(), Status { message, ..status });
        self.append(AuthEvent::Status { provider, credential, generation, status })
    }

    /// Sets the provider that is used unless another one is asked for.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn set_active(&mut self, provider: Option<&str>) -> Result<()> {
        self.append(AuthEvent::ActiveProvider { provider: provider.map(str::to_owned) })
    }

    /// Credentials of this source are not taken in any more.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn suppress(&mut self, provider: &str, source: &str) -> Result<()> {
        self.append(AuthEvent::SourceSuppressed { provider: provider.into(), source: source.into() })
    }

    /// They are again.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn unsuppress(&mut self, provider: &str, source: &str) -> Result<()> {
        self.append(AuthEvent::Unsuppressed { provider: provider.into(), source: source.into() })
    }

    /// Waits until a credential has another generation than this one, and returns it; `None`: the exchange failed, or its
    /// holder's lease has run out.
    ///
    /// # Errors
    /// [`Error::RefreshTimeout`] when `limit` runs out, [`Error::NotFound`] if the credential is not there (any more); as
    /// [`View::refresh`].
    pub fn wait_for_generation(
        &mut self,
        provider: &str,
        credential: &str,
        generation: u64,
        limit: Duration,
    ) -> Result<Option<u64>> {
        let start = Instant::now();
        let mut pause = POLL.0;
        loop {
            self.refresh()?;
            let known = self.known(provider, credential)?;
            if known.generation() != generation {
                return Ok(Some(known.generation()));
            }
            let Some(claim) = known.claim().filter(|claim| claim.is_held(&Moment::now())) else { return Ok(None) };
            let waited = start.elapsed();
            if waited >= limit {
                let holder = claim.holder().to_owned();
                let (provider, credential) = (provider.into(), credential.into());
                return Err(Error::RefreshTimeout { provider, credential, holder, waited });
            }
            std::thread::sleep(pause.min(limit.saturating_sub(waited)));
            pause = (pause * 2).min(POLL.1);
        }
    }

    /// The credential, or the error that says it is not there.
    fn known(&self, provider: &str, credential: &str) -> Result<&Credential> {
        let name = || format!("{provider} {credential}");
        self.view().credential(provider, credential).ok_or_else(|| Error::NotFound { what: "credential", name: name() })
    }

    /// A text for people that may repeat a secret of the credential.
    fn without_secrets(&self, provider: &str, credential: &str, text: &str) -> String {
        match self.view().credential(provider, credential) {
            Some(known) => known.fields().redact_text(text),
            None => text.to_owned(),
        }
    }

    /// Appends, on the disk, and reads up to it.
    fn append(&mut self, event: AuthEvent) -> Result<()> {
        self.append_all(vec![event])
    }

    /// The same for several, each on its own, with one sync.
    fn writer(&mut self) -> Result<&mut Writer> {
        Ok(match &mut self.writer {
            Some(writer) => writer,
            // A forked child appends, and claims, in its own name.
            none => none.insert(self.profile.writer(Origin { process: crate::process_id(), ..self.origin.clone() })?),
        })
    }

    fn append_all(&mut self, events: Vec<AuthEvent>) -> Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let writer = self.writer()?;
        let events: Vec<Event<'_>> = events.into_iter().map(|event| Event::Auth(Box::new(event))).collect();
        let batches: Vec<&[Event<'_>]> = events.chunks(1).collect();
        let positions = writer.append_batches(&batches, Durability::Disk)?;
        positions.last().map_or(Ok(()), |last| self.view.wait_for(*last, VISIBLE_LIMIT))
    }
}
