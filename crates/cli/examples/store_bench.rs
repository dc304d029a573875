#![allow(missing_docs)]
#[path = "../src/bench/store.rs"]
mod store;
use clap::Parser;
#[derive(Parser)]
struct A { #[command(flatten)] s: store::StoreArgs }
fn main() {
    let a = A::parse();
    let f = store::run(&a.s, &mut |t| eprintln!("{t}")).unwrap();
    for g in f.goals() { println!("{:28} {:10.3} {:10} {}", g.0, g.1, g.2, g.3); }
    println!("{}", serde_json::to_string(&f).unwrap());
}
