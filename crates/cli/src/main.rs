//! Placeholder while the slice grows.
fn main() {}
