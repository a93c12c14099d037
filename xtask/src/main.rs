//! Placeholder until its room is filled.
fn main() {}
