//! Bytes that a view holds, counted by the allocator of this program.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

use hermes_log::View;

use crate::logs::{Home, SKILLS, Skills, fill};
use crate::measure::{Effort, Row, Target};

struct Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;
/// Off while times are taken.
static COUNTING: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicIsize = AtomicIsize::new(0);

// SAFETY: every call is passed on to the system's allocator as it came; growing and zeroing fall back to these two.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTING.load(Ordering::Relaxed) {
            BYTES.fetch_add(layout.size().cast_signed(), Ordering::Relaxed);
        }
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if COUNTING.load(Ordering::Relaxed) {
            BYTES.fetch_sub(layout.size().cast_signed(), Ordering::Relaxed);
        }
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if COUNTING.load(Ordering::Relaxed) {
            BYTES.fetch_add(layout.size().cast_signed(), Ordering::Relaxed);
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        if COUNTING.load(Ordering::Relaxed) {
            BYTES.fetch_add(len.cast_signed() - layout.size().cast_signed(), Ordering::Relaxed);
        }
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, len) }
    }
}

/// Bytes that are allocated when `make` is done, and were not before.
fn held<T>(make: impl FnOnce() -> T) -> (T, isize) {
    BYTES.store(0, Ordering::Relaxed);
    COUNTING.store(true, Ordering::Relaxed);
    let made = make();
    COUNTING.store(false, Ordering::Relaxed);
    (made, BYTES.load(Ordering::Relaxed))
}

/// A view after 10,000 events and after 10 million: opened then, and refreshed from the one to the other.
pub fn view(effort: Effort) -> Vec<Row> {
    const BATCH: usize = 50;
    let (few, many) = (10_000, effort.pick(200_000, 10_000_000));
    let home = Home::new();
    let mut writer = home.writer();
    let mut skills = Skills::new();
    fill(&mut writer, &mut skills, few, BATCH);
    let (mut view, after_few) = held(|| home.profile.view().unwrap());
    let mut grown = after_few;
    for _ in 0..(many - few) / few {
        fill(&mut writer, &mut skills, few, BATCH);
        grown += held(|| view.refresh().unwrap()).1;
    }
    assert_eq!((view.events(), view.skills().len()), (many as u64, SKILLS));
    let (opened, after_many): (View, _) = held(|| home.profile.view().unwrap());
    assert_eq!(opened.events(), many as u64);
    let row = |what: String, bytes: isize| Row {
        what,
        against: format!("the same view after {few}"),
        ours: format!("{bytes} bytes"),
        floor: format!("{after_few} bytes"),
        ratio: bytes as f64 / after_few as f64,
        target: Target::Equal,
        noise: 0.0,
    };
    vec![
        row(format!("memory of a view of {SKILLS} skills opened after {many} events"), after_many),
        row(format!("memory of a view of {SKILLS} skills refreshed from {few} to {many} events"), grown),
    ]
}
