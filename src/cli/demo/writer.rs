//! One of the demo's processes: announces, appends, acknowledges.

use std::io::{self, Write};
use std::os::fd::AsFd;

use crate::cli::args::Global;
use crate::cli::demo::books::{self, SKILLS};
use crate::cli::exit::{Exit, Failure};
use crate::event::{Event, Origin};
use crate::log::writer::Durability;

/// What a process says after an acknowledgement; before an append it says the number of the skill.
pub(super) const ACKNOWLEDGED: u8 = 0xff;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    name: String,
    events: u64,
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let origin = Origin { session: Some(args.name.clone().into()), ..Origin::here("demo") };
    let mut writer = global.profile()?.writer(origin)?;
    let ledger = Event::viewed(books::ledger(&args.name));
    let mut skills: Vec<[Event<'_>; 2]> =
        (0..SKILLS).map(|number| [Event::used(books::skill(number)), ledger.clone()]).collect();
    // Each process has an order of its own.
    let mut random = Random(u64::from_le_bytes(crate::sys::random()) | 1);
    let mut pipe = Unbuffered;
    let mut announced = random.skill();
    pipe.write_all(&[announced])?;
    for left in (0..args.events).rev() {
        if let Some(events) = skills.get_mut(usize::from(announced)) {
            writer.append_batch(events, Durability::Process)?;
        }
        if left == 0 {
            pipe.write_all(&[ACKNOWLEDGED])?;
        } else {
            announced = random.skill();
            pipe.write_all(&[ACKNOWLEDGED, announced])?; // one write, which a kill does not part
        }
    }
    Ok(Exit::Done)
}

/// stdout without the buffer of std: what is said is in the pipe.
struct Unbuffered;

impl Write for Unbuffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(io::stdout().as_fd(), bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// xorshift64, Marsaglia 2003: which skill is next matters to nobody.
struct Random(u64);

impl Random {
    fn skill(&mut self) -> u8 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % u64::from(SKILLS)) as u8
    }
}
