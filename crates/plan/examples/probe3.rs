//! Scratch.
#![allow(clippy::disallowed_methods)]
use isomer_plan::bench::*;
fn main() {
    let t = std::time::Instant::now();
    let mut clock = || t.elapsed().as_secs_f64();
    println!("{:?}", hermes(Scale::Full, &mut clock).unwrap());
    println!("{:?}", assign(Scale::Full, &mut clock).unwrap());
    if std::env::args().nth(1).is_some() { println!("{:?}", clay(ClaySize::of(Scale::Full), &mut clock).unwrap()); }
}
