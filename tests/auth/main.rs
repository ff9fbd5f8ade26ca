//! Promise P11, and P9 for credentials: nobody waits to read, one exchange for each token, no token lost, no secret shown.

#[path = "../support/mod.rs"]
mod support;

mod command;
mod endpoint;
mod file;
mod flight;
mod generations;
mod killed;
mod readers;
mod secrets;

use std::time::Duration;

use endpoint::Endpoint;
use hermes_log::auth::{Auth, RefreshOptions};
use hermes_log::{Fields, Origin, Profile};
use support::processes::{HANG, Task};

const PROVIDER: &str = "nous";
const ID: &str = "main";

#[test]
fn worker() {
    let Some(task) = Task::given() else { return };
    match task.role.as_str() {
        "read" => readers::read(&task),
        "hold locks" => readers::hold_locks(&task),
        "refresh" => flight::refresh(&task),
        "refresh by steps" => killed::refresh_by_steps(&task),
        "clock" => generations::clock(&task),
        role => panic!("no such role: {role}"),
    }
}

fn auth(profile: &Profile) -> Auth {
    profile.auth(Origin::here("session")).unwrap()
}

fn fields(text: &str) -> Fields {
    Fields::parse(text, Vec::new()).unwrap()
}

/// A credential whose tokens are the first of a family.
fn log_in(profile: &Profile, id: &str, endpoint: &Endpoint) -> u64 {
    auth(profile).set(PROVIDER, id, endpoint.log_in()).unwrap()
}

/// The refresh token that the view has.
fn token(auth: &Auth, id: &str) -> String {
    let known = auth.view().credential(PROVIDER, id).unwrap();
    known.fields().text("refresh_token").unwrap().reveal().to_owned()
}

fn options(lease: Duration) -> RefreshOptions {
    RefreshOptions { lease, wait: HANG }
}
