//! Being woken when something in a folder changes, by inotify.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

/// A watch on a folder, set when it is made.
#[derive(Debug)]
pub(crate) struct Watch {
    descriptor: OwnedFd,
}

impl Watch {
    /// `None` where there is no inotify, no watch left, or no folder: the caller polls.
    pub(crate) fn new(folder: &Path) -> Option<Watch> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let descriptor = inotify::init(flags).ok()?;
        let changes = inotify::WatchFlags::MODIFY
            | inotify::WatchFlags::CREATE
            | inotify::WatchFlags::DELETE_SELF
            | inotify::WatchFlags::MOVE_SELF;
        inotify::add_watch(&descriptor, folder, changes).ok()?;
        Some(Watch { descriptor })
    }

    /// Returns when something changed since the last wait, or after `limit`.
    pub(crate) fn wait(&self, limit: Duration) {
        let limit = Timespec::try_from(limit).ok();
        let mut descriptors = [PollFd::new(&self.descriptor, PollFlags::IN)];
        if poll(&mut descriptors, limit.as_ref()).is_ok_and(|ready| ready > 0) {
            // What changed does not matter, and an overflow is a change as well.
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut events = inotify::Reader::new(&self.descriptor, &mut buffer);
            while events.next().is_ok() {}
        }
    }
}
