//! The fold is deterministic: the same frames give the same view, however they were read.

#[path = "../support/mod.rs"]
mod support;

mod histories;
mod meaning;
mod model;
mod views;

/// Names that are easily mixed up or written wrongly.
fn names() -> Vec<String> {
    let short =
        ["pdf", "PDF", "a\u{85}b", "a\u{2028}b", "}{", "two\nlines", "😀", "é", "e\u{301}", " ", "\"", "\0", "pdf "];
    let mut names: Vec<String> = short.map(String::from).to_vec();
    names.extend(["n".repeat(4096), "ü".repeat(2048), "l".repeat(300)]);
    names
}
