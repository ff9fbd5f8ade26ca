//! The search: breadth first, so the first violation has the shortest trace. States are told apart by a
//! 128-bit fingerprint of their encoding (two equal ones among 10^7 states: one chance in 10^24).

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Instant;

use crate::fold::{Fold, fresh};
use crate::rules::Config;
use crate::state::{State, reached};
use crate::{invariants, steps};

/// An encoding in the making.
#[derive(Default)]
pub struct Bytes(Vec<u8>);

impl Bytes {
    pub fn put(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub fn put_all(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub fn put_mask(&mut self, mask: u16) {
        self.0.extend_from_slice(&mask.to_le_bytes());
    }

    /// Most folds are short: a length, then the bytes that are not zero.
    pub fn put_fold(&mut self, fold: &Fold) {
        let events = fold.len().div_ceil(2) as usize;
        let gaps = (64 - fold.gaps.leading_zeros()).div_ceil(8) as usize;
        self.put((events << 4 | gaps) as u8);
        self.put_all(&fold.events.to_le_bytes()[..events]);
        self.put_all(&fold.gaps.to_le_bytes()[..gaps]);
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    fn fingerprint(&self) -> u128 {
        const A: u64 = 0x9E37_79B9_7F4A_7C15;
        const B: u64 = 0xD6E8_FEB8_6659_FD93;
        let (mut a, mut b) = (self.0.len() as u64 ^ A, B);
        let mut mix = |word: u64| {
            let wide = u128::from(a ^ word) * u128::from(A);
            a = (wide as u64) ^ (wide >> 64) as u64;
            b = (b.rotate_left(23) ^ word).wrapping_mul(B);
            b ^= b >> 31;
        };
        let chunks = self.0.chunks_exact(8);
        let rest = chunks.remainder();
        for chunk in chunks {
            mix(u64::from_le_bytes(chunk.try_into().expect("eight bytes")));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        mix(u64::from_le_bytes(last));
        mix(A);
        u128::from(a) << 64 | u128::from(b)
    }
}

/// The key of the set is a fingerprint already.
#[derive(Default)]
pub struct TakeLow(u64);

impl Hasher for TakeLow {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("fingerprints are hashed as u128");
    }
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

pub type Fingerprints = HashSet<u128, BuildHasherDefault<TakeLow>>;

pub fn fingerprint(state: &State, buffer: &mut Bytes) -> u128 {
    buffer.0.clear();
    state.encode(buffer);
    buffer.fingerprint()
}

/// Where the steps out of a state go.
pub type Emit<'a> = &'a mut dyn FnMut(State, fmt::Arguments);

/// What a run found.
pub struct Outcome {
    pub states: usize,
    pub transitions: u64,
    pub finished: bool,
    pub violation: Option<(&'static str, Vec<String>)>,
    /// How many transitions reached each of `reached::NAMES`.
    pub reached: [u64; 32],
    pub seconds: f64,
}

pub fn search(config: &Config) -> Outcome {
    let started = Instant::now();
    let mut initial = steps::initial(config);
    initial.canonicalise(config);
    let mut seen = Fingerprints::default();
    let mut losses = Fingerprints::default();
    let mut buffer = Bytes::default();
    seen.insert(fingerprint(&initial, &mut buffer));
    // Of every state: the state it was first reached from, and the which-th step it was.
    let mut origin: Vec<(u32, u32)> = vec![(0, 0)];
    let mut level = vec![(initial, 0u32)];
    let mut outcome =
        Outcome { states: 1, transitions: 0, finished: false, violation: None, reached: [0; 32], seconds: 0.0 };
    let mut found: Option<(u32, u32, &'static str)> = None;
    'levels: while !level.is_empty() {
        let mut next = vec![];
        for (state, id) in level {
            let truth = fresh(config, &state);
            let mut index = 0;
            steps::successors(config, &state, Some(&mut losses), &mut |mut successor, _| {
                if found.is_some() {
                    return;
                }
                outcome.transitions += 1;
                for bit in 0..reached::NAMES.len() {
                    outcome.reached[bit] += u64::from(successor.reached >> bit & 1);
                }
                if let Some(what) = invariants::violation(config, &state, &truth, &successor) {
                    found = Some((id, index, what));
                }
                successor.reached = 0;
                successor.canonicalise(config);
                if seen.insert(fingerprint(&successor, &mut buffer)) {
                    origin.push((id, index));
                    next.push((successor, origin.len() as u32 - 1));
                }
                index += 1;
            });
            if let Some((id, index, what)) = found {
                outcome.violation = Some((what, trace(config, &origin, id, index)));
                break 'levels;
            }
            if seen.len() > config.state_limit {
                break 'levels;
            }
        }
        level = next;
        outcome.finished = level.is_empty();
    }
    outcome.states = seen.len();
    outcome.seconds = started.elapsed().as_secs_f64();
    outcome
}

/// Goes the way again from the initial state and writes down what each step says.
fn trace(config: &Config, origin: &[(u32, u32)], id: u32, last: u32) -> Vec<String> {
    let mut way = vec![last];
    let mut at = id;
    while at != 0 {
        way.push(origin[at as usize].1);
        at = origin[at as usize].0;
    }
    let mut state = steps::initial(config);
    state.canonicalise(config);
    let mut lines = vec![];
    for wanted in way.into_iter().rev() {
        let mut index = 0;
        let mut chosen = None;
        // Losses come last among the steps, so leaving repeated ones out (`None`: no memory of them)
        // does not change the index of any step that was taken.
        steps::successors(config, &state, None, &mut |successor, text| {
            if index == wanted {
                lines.push(text.to_string());
                chosen = Some(successor);
            }
            index += 1;
        });
        state = chosen.expect("the same state has the same steps");
        let fold = fresh(config, &state);
        let last = lines.len() - 1;
        lines[last] += &format!("   log {}", fold.show());
        state.reached = 0;
        state.canonicalise(config);
    }
    lines
}
