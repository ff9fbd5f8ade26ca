//! Reading credentials at a start, behind as many usage events as are ever left unfolded.

use std::time::Duration;

use hermes_log::{Fields, Origin};

use crate::logs::{Home, Skills, fill};
use crate::measure::{Effort, Row, Target, time};

/// What an emitter lets gather before it compacts, and a live segment on top.
const UNFOLDED_LEN: usize = (16 + 4) << 20;

/// Opening, and finding a credential, against a limit.
pub fn at_start(effort: Effort) -> Row {
    const MOST: Duration = Duration::from_millis(20);
    let home = Home::new();
    let mut auth = home.profile.auth(Origin::here("session")).unwrap();
    auth.set("nous", "main", Fields::parse(r#"{"refresh_token": "r"}"#, Vec::new()).unwrap()).unwrap();
    let (mut writer, mut skills, mut events) = (home.writer(), Skills::new(), 0);
    let len = |home: &Home| home.segments().iter().map(Vec::len).sum::<usize>();
    while len(&home) < effort.pick(UNFOLDED_LEN / 10, UNFOLDED_LEN) {
        // As an emitter appends: merged, many to a frame.
        fill(&mut writer, &mut skills, 64_000, 64);
        events += 64_000;
    }
    let mut times: Vec<Duration> = (0..effort.pick(3, 101))
        .map(|_| {
            time(|| {
                let auth = home.profile.auth(Origin::here("session")).unwrap();
                assert_eq!(auth.view().credential("nous", "main").unwrap().generation(), 1);
            })
        })
        .collect();
    times.sort_unstable();
    let middle = times[times.len() / 2];
    let spread = times[times.len() * 3 / 4] - times[times.len() / 4];
    let shown = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
    Row {
        what: format!("reading a credential at a start, with {events} events in front of it that nobody has folded"),
        against: "the limit".into(),
        ours: shown(middle),
        floor: shown(MOST),
        ratio: middle.as_secs_f64() / MOST.as_secs_f64(),
        target: Target::Times(1.0),
        noise: spread.as_secs_f64() / middle.as_secs_f64(),
    }
}
