//! `auth`: credentials, without their secrets unless one is asked for by name.

mod change;
mod refresh;
mod show;

use std::path::PathBuf;

use clap::Subcommand;

use crate::auth::Auth;
use crate::cli::args::Global;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::Output;
use crate::event::Origin;

pub(crate) const HELP: &str = "\
Examples:
  hermes-log auth import ~/.hermes/auth.json
  hermes-log auth list
  hermes-log auth show nous main --reveal access_token
  echo '{\"api_key\": \"...\"}' | hermes-log auth set openrouter main -
  hermes-log auth refresh nous main -- ./ask-the-token-endpoint
  hermes-log auth export ~/.hermes/auth.json

Reading takes no lock and waits for nobody. No lock is held while a refresh runs. Secrets come in on stdin
or from a file, never as an argument, and are printed by `auth show --reveal` alone.";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// All credentials
    #[command(after_help = show::LIST_HELP)]
    List,
    /// The fields of a provider's credentials, or of one
    #[command(after_help = show::HELP)]
    Show(show::Args),
    /// What is known of the tokens: good, exhausted, being refreshed, log in again
    #[command(after_help = show::STATUS_HELP)]
    Status {
        /// Only of this provider
        provider: Option<String>,
    },
    /// Set a credential, from a JSON object on stdin
    #[command(after_help = change::SET_HELP)]
    Set(change::Set),
    /// Remove a credential
    Remove(Names),
    /// Take in the credentials of an auth.json, which is only read
    #[command(after_help = change::IMPORT_HELP)]
    Import {
        /// The file
        file: PathBuf,
    },
    /// Write the credentials into an auth.json that Hermes reads
    #[command(after_help = change::EXPORT_HELP)]
    Export {
        /// The file; what else stands in it stays
        file: PathBuf,
    },
    /// Exchange a credential's tokens with a command that runs once for all processes that ask
    #[command(after_help = refresh::HELP)]
    Refresh(refresh::Args),
}

/// Which credential.
#[derive(Debug, clap::Args)]
pub(crate) struct Names {
    /// The provider
    provider: String,
    /// The credential's id; @provider is what auth.json has for the provider itself
    id: String,
}

pub(crate) fn run(args: &Args, global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let mut auth = global.profile()?.auth(Origin::here("cli"))?;
    out.report(auth.gaps(), &[]);
    let exit = match &args.what {
        What::List => show::list(&auth, out),
        What::Show(args) => show::one(&auth, args, out),
        What::Status { provider } => show::status(&auth, provider.as_deref(), out),
        What::Set(args) => change::set(&mut auth, args, out),
        What::Remove(names) => change::remove(&mut auth, names),
        What::Import { file } => change::import(&mut auth, file, out),
        What::Export { file } => change::export(&mut auth, file, out),
        What::Refresh(args) => refresh::run(&mut auth, args, out),
    }?;
    Ok(if exit == Exit::Done { with_gaps(&auth) } else { exit })
}

/// A reader that could not read everything says so in its exit code.
fn with_gaps(auth: &Auth) -> Exit {
    Exit::with_gaps(!auth.gaps().is_empty())
}
