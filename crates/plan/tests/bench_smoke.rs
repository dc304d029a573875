//! Runs the benchmark of the planners at a tiny size, so that it stays usable.

use isomer_plan::bench::{ClaySize, Scale, assign, clay, hermes};

#[test]
fn a_tiny_run_of_every_benchmark_gives_figures() {
    let mut ticks = 0.0;
    let mut clock = || {
        ticks += 1.0;
        ticks
    };
    let routed = hermes(Scale::Smoke, &mut clock).unwrap();
    assert!(routed.identical && routed.gap_to_optimum >= 0.0);
    assert!(routed.gap_to_optimum <= routed.gap_of_paper);
    assert!(assign(Scale::Smoke, &mut clock).unwrap().cost_equal);
    let planned = clay(ClaySize::of(Scale::Smoke), &mut clock).unwrap();
    assert!(planned.vertices > 0 && planned.max_load_ratio > 0.0);
}
