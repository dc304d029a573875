//! Runs a range of seeds: `cargo run --release -p isomer-sim --example seeds -- 1 500 [trace]`, or
//! with the name of a planted bug, until it is caught.

use isomer_sim::{Plant, SimOptions, run};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, or| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(or);
    let (first, last): (u64, u64) = (number(0, 1), number(1, 20));
    let plant: Option<Plant> = words.iter().find_map(|word| word.parse().ok());
    let options = SimOptions { plant, ..SimOptions::default() };
    let mut failed = 0;
    for seed in first..=last {
        match run(seed, &options) {
            Ok(summary) => println!("{summary}"),
            Err(failure) => {
                println!("{failure}");
                failed += 1;
                if words.contains(&"trace".to_owned()) {
                    failure.lines.iter().for_each(|line| println!("    {line}"));
                }
                if plant.is_some() {
                    break;
                }
            }
        }
    }
    println!("{failed} failed");
}
