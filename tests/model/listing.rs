//! A listing that is under way: `readdir` may miss what is added and what is removed while it runs.

use crate::search::Bytes;
use crate::state::Names;

/// What of a listing makes a difference to whoever asked for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    All,
    /// Only the highest segment and the highest checkpoint.
    Highest,
    /// Only the highest checkpoint.
    Floor,
}

impl Wanted {
    pub fn of(self, names: Names) -> Names {
        let only = |number: u8, of: u16| of & 1 << number;
        match self {
            Wanted::All => names,
            Wanted::Highest => Names {
                segments: only(names.highest(), names.segments),
                checkpoints: only(names.floor(), names.checkpoints),
            },
            Wanted::Floor => Names { segments: 0, checkpoints: only(names.floor(), names.checkpoints) },
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listing {
    open: bool,
    /// Names that were there all the time (must be shown), and at some time (may be shown).
    always: Names,
    ever: Names,
    /// The highest floor that this process ever saw; kept with slow listings only.
    pub floor_seen: u8,
}

impl Listing {
    pub fn closed(floor_seen: u8) -> Listing {
        let none = Names { segments: 0, checkpoints: 0 };
        Listing { open: false, always: none, ever: none, floor_seen }
    }

    pub fn is_open(&self) -> bool {
        self.open
    }

    pub fn open(&mut self, names: Names) {
        *self = Listing { open: true, always: names, ever: names, ..*self };
    }

    /// Called after every step of anybody.
    pub fn track(&mut self, names: Names) {
        if self.open {
            self.always.segments &= names.segments;
            self.always.checkpoints &= names.checkpoints;
            self.ever.segments |= names.segments;
            self.ever.checkpoints |= names.checkpoints;
        }
    }

    /// Everything that the listing may have shown.
    pub fn results(&self, wanted: Wanted, mut act: impl FnMut(Names)) {
        let mut seen = vec![];
        for_each_subset(self.ever.segments & !self.always.segments, |segments| {
            for_each_subset(self.ever.checkpoints & !self.always.checkpoints, |checkpoints| {
                let shown = wanted.of(Names {
                    segments: self.always.segments | segments,
                    checkpoints: self.always.checkpoints | checkpoints,
                });
                if !seen.contains(&shown) {
                    seen.push(shown);
                    act(shown);
                }
            });
        });
    }

    pub fn encode(&self, out: &mut Bytes) {
        out.put(u8::from(self.open) << 4 | self.floor_seen);
        if self.open {
            for mask in [self.always.segments, self.always.checkpoints, self.ever.segments, self.ever.checkpoints] {
                out.put_mask(mask);
            }
        }
    }
}

pub fn for_each_subset(of: u16, mut act: impl FnMut(u16)) {
    let mut subset = of;
    loop {
        act(subset);
        if subset == 0 {
            return;
        }
        subset = (subset - 1) & of;
    }
}
