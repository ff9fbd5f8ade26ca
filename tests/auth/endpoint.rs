//! A token endpoint on loopback: single-use refresh tokens that rotate, and a family that is revoked when a used one is
//! sent again. What it has recorded is what the tests judge by.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use hermes_log::Fields;
use hermes_log::auth::RefreshFailure;
use serde_json::{Value, json};

/// What the endpoint does with the requests that come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Answers.
    #[default]
    Prompt,
    /// Reports the request, and waits to be told before it looks at the token.
    Waits,
    /// A used token is exchanged once more, and the newest pair is the one that is honoured.
    Lenient,
    /// Fails with a 500, and consumes nothing.
    Broken,
    /// Consumes the token, and drops its answer.
    Mute,
}

#[derive(Debug, Default)]
struct Books {
    /// Family of each refresh token that was ever issued.
    family: HashMap<String, usize>,
    /// The token that each family honours; `None`: revoked.
    current: Vec<Option<String>>,
    issued: usize,
    mood: Mood,
    /// Requests, by the token that was sent.
    requests: Vec<String>,
    revoked: usize,
    /// How many waiting requests may go on, and how.
    released: Vec<bool>,
}

#[derive(Debug, Default)]
struct Shared {
    books: Mutex<Books>,
    released: Condvar,
}

pub(crate) struct Endpoint {
    pub(crate) port: u16,
    shared: Arc<Shared>,
    arrivals: Receiver<()>,
    server: Arc<tiny_http::Server>,
}

impl Endpoint {
    pub(crate) fn start() -> Endpoint {
        let server = Arc::new(tiny_http::Server::http("127.0.0.1:0").unwrap());
        let port = server.server_addr().to_ip().unwrap().port();
        let (shared, (sender, arrivals)) = (Arc::<Shared>::default(), channel());
        std::thread::spawn({
            let (server, shared) = (Arc::clone(&server), Arc::clone(&shared));
            move || {
                for request in server.incoming_requests() {
                    let (shared, sender) = (Arc::clone(&shared), sender.clone());
                    std::thread::spawn(move || answer(request, &shared, &sender));
                }
            }
        });
        Endpoint { port, shared, arrivals, server }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.shared.books.lock().unwrap()
    }

    pub(crate) fn set_mood(&self, mood: Mood) {
        self.books().mood = mood;
    }

    /// Starts a family.
    pub(crate) fn log_in(&self) -> Fields {
        let mut books = self.books();
        let family = books.current.len();
        books.current.push(None);
        Fields::parse(&books.issue(family).to_string(), Vec::new()).unwrap()
    }

    /// Waits until a request has come that waits.
    pub(crate) fn await_request(&self) {
        self.arrivals.recv_timeout(crate::support::processes::HANG).unwrap();
    }

    /// Lets a waiting request go on; or forgets it, as if it had never come.
    pub(crate) fn release(&self, consumes: bool) {
        self.books().released.push(consumes);
        self.shared.released.notify_all();
    }

    /// The refresh token that the family of this one honours.
    pub(crate) fn honoured(&self, token: &str) -> Option<String> {
        let books = self.books();
        books.current[books.family[token]].clone()
    }

    /// How many requests came.
    pub(crate) fn requests(&self) -> usize {
        self.books().requests.len()
    }

    /// How many families were revoked because a used token was sent.
    pub(crate) fn revoked(&self) -> usize {
        self.books().revoked
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.server.unblock();
    }
}

impl Books {
    fn issue(&mut self, family: usize) -> Value {
        self.issued += 1;
        let token = format!("refresh-{family}-{}-secretsecret", self.issued);
        self.family.insert(token.clone(), family);
        self.current[family] = Some(token.clone());
        json!({"access_token": format!("access-{family}-{}-secretsecret", self.issued), "refresh_token": token})
    }
}

fn answer(mut request: tiny_http::Request, shared: &Shared, arrivals: &Sender<()>) {
    let mut token = String::new();
    request.as_reader().read_to_string(&mut token).unwrap();
    let mut books = shared.books.lock().unwrap();
    books.requests.push(token.clone());
    if books.mood == Mood::Waits {
        let _ = arrivals.send(());
        let mut waiting = shared.released.wait_while(books, |books| books.released.is_empty()).unwrap();
        if !waiting.released.remove(0) {
            return; // dropped
        }
        books = waiting;
    }
    let family = books.family.get(&token).copied();
    let (code, body) = match (books.mood, family) {
        (Mood::Broken, _) => (500, json!({"error": "server_error"})),
        (_, None) => (400, json!({"error": "invalid_grant"})),
        (mood, Some(family)) => match books.current[family].clone() {
            Some(current) if current == token || mood == Mood::Lenient => (200, books.issue(family)),
            current => {
                if current.is_some() {
                    books.revoked += 1;
                    books.current[family] = None;
                }
                (400, json!({"error": "invalid_grant", "error_description": format!("{token} was used before")}))
            }
        },
    };
    if books.mood == Mood::Mute {
        return; // an answer that is dropped closes the connection
    }
    drop(books);
    let _ = request.respond(tiny_http::Response::from_string(body.to_string()).with_status_code(code));
}

/// Asks an endpoint for new tokens, as an agent would.
pub(crate) fn exchange(port: u16, fields: &Fields) -> Result<Fields, RefreshFailure> {
    let failed = |e: std::io::Error| RefreshFailure::Failed(e.to_string());
    let token = fields.text("refresh_token").unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
    let (len, token) = (token.reveal().len(), token.reveal());
    write!(stream, "POST /token HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len}\r\n\r\n{token}")
        .map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        return Err(RefreshFailure::Failed("no answer".into()));
    };
    match head.split(' ').nth(1) {
        Some("200") => Ok(Fields::parse(body, Vec::new()).unwrap()),
        // A server that repeats the token in its error is what must not leak.
        Some("400") => Err(RefreshFailure::Refused(body.to_owned())),
        _ => Err(RefreshFailure::Failed(body.to_owned())),
    }
}
