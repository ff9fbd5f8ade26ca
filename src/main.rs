//! Hands over to the library's command line.
fn main() {}
