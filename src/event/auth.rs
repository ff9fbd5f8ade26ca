//! What happens to credentials. Each names the *generation* that it speaks about, the count of the credential's token
//! changes, and says nothing about a newer one.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::event::secret::Fields;
use crate::sys::Moment;

/// Longest name of a provider, a credential, a source, in bytes of UTF-8.
pub const MAX_AUTH_NAME_LEN: usize = 1024;

/// The credential of a provider that has no id of its own: what `providers` in `auth.json` holds.
pub const PROVIDER_STATE: &str = "@provider";

/// An auth event. Appended by the calls of [`Auth`](crate::auth::Auth), always durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[allow(missing_docs)] // the fields that repeat: provider, credential, generation
pub enum AuthEvent {
    /// A credential was set, by a login or an import. With other secrets than before it is the next generation.
    CredentialSet {
        provider: String,
        credential: String,
        fields: Fields,
        obtained: Moment,
        /// Whether the secrets that it replaces stay beside it, as an alternate.
        keeps_old: bool,
    },
    /// Somebody wants to exchange the tokens of this generation. The first claim in log order whose lease has not run out
    /// has won.
    RefreshClaimed {
        provider: String,
        credential: String,
        generation: u64,
        /// Random, tells this claim from others.
        claim: u64,
        at: Moment,
        lease_micros: u64,
    },
    /// The exchange of generation `base` gave these fields.
    Refreshed { provider: String, credential: String, base: u64, claim: u64, fields: Fields, obtained: Moment },
    /// The exchange failed.
    RefreshFailed {
        provider: String,
        credential: String,
        generation: u64,
        claim: u64,
        /// The server refused the tokens: nobody needs to try again before the next login.
        refused: bool,
        /// For people, without secrets.
        message: String,
    },
    /// What using the credential showed.
    Status { provider: String, credential: String, generation: u64, status: Status },
    /// The credential is gone, and with it what is said of its generations so far.
    Removed { provider: String, credential: String },
    /// The provider that is used unless another one is asked for.
    ActiveProvider { provider: Option<String> },
    /// Credentials from this source are not taken in any more.
    SourceSuppressed { provider: String, source: String },
    /// They are again.
    Unsuppressed { provider: String, source: String },
}

/// What using a credential showed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The word.
    pub kind: StatusKind,
    /// The server's code, such as 429.
    pub code: Option<i64>,
    /// When it can be used again, in microseconds since the epoch (UTC).
    pub reset_micros: Option<i64>,
    /// For people, without secrets.
    pub message: Option<String>,
}

impl Status {
    /// Nothing but the word.
    #[must_use]
    pub fn of(kind: StatusKind) -> Status {
        Status { kind, code: None, reset_micros: None, message: None }
    }
}

/// The words of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StatusKind {
    /// It works.
    Ok,
    /// A limit is reached, until the reset.
    Exhausted,
    /// The server refused its tokens: log in again.
    LoginRequired,
}

impl StatusKind {
    /// The word as it stands in JSON and in `auth.json`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            StatusKind::Ok => "ok",
            StatusKind::Exhausted => "exhausted",
            StatusKind::LoginRequired => "login_required",
        }
    }
}

impl AuthEvent {
    /// The provider and credential that it is about.
    #[must_use]
    pub fn names(&self) -> (Option<&str>, Option<&str>) {
        match self {
            AuthEvent::CredentialSet { provider, credential, .. }
            | AuthEvent::RefreshClaimed { provider, credential, .. }
            | AuthEvent::Refreshed { provider, credential, .. }
            | AuthEvent::RefreshFailed { provider, credential, .. }
            | AuthEvent::Status { provider, credential, .. }
            | AuthEvent::Removed { provider, credential } => (Some(provider), Some(credential)),
            AuthEvent::SourceSuppressed { provider, source } | AuthEvent::Unsuppressed { provider, source } => {
                (Some(provider), Some(source))
            }
            AuthEvent::ActiveProvider { provider } => (provider.as_deref(), None),
        }
    }

    /// Checks what a caller gave.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty name or one over [`MAX_AUTH_NAME_LEN`] bytes.
    pub fn validate(&self) -> Result<()> {
        let (provider, name) = self.names();
        for name in [provider, name].into_iter().flatten() {
            let found = match name.len() {
                0 => "an empty name".to_owned(),
                1..=MAX_AUTH_NAME_LEN => continue,
                len => format!("a name of {len} bytes"),
            };
            return Err(Error::Invalid { what: "provider or credential", found, allowed: "1 to 1024 bytes of UTF-8" });
        }
        Ok(())
    }

    /// Bytes of its texts, roughly what it takes in a frame.
    pub(crate) fn text_len(&self) -> usize {
        let (provider, name) = self.names();
        let beside = match self {
            AuthEvent::CredentialSet { fields, .. } | AuthEvent::Refreshed { fields, .. } => fields.reveal().len(),
            AuthEvent::RefreshFailed { message, .. } => message.len(),
            _ => 0,
        };
        provider.map_or(0, str::len) + name.map_or(0, str::len) + beside
    }
}
