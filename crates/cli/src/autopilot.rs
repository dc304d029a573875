//! Text about the autopilot: its learned costs and its decisions.

use isomer_design::Design;
use isomer_plan::learned::Costs;
use isomer_plan::strategy::Learned;
use std::fmt::Write as _;

/// The learned costs, and the last `most` decisions, the newest first.
pub fn to_text(learned: &Learned, design: &Design, most: usize) -> String {
    let mut text = costs(&learned.costs());
    learned.with_journal(|journal| {
        let _ = writeln!(text, "\n{} decisions with changes", journal.len());
        text += &journal.summary().to_text();
        journal.entries().take(most).for_each(|entry| text += &entry.to_text(design));
    });
    text
}

/// One line for each learned function: its observations, its R², its weights.
pub fn costs(costs: &Costs) -> String {
    let mut text = String::from("learned, in microseconds:\n");
    for (name, function) in costs.functions() {
        let predicted = match function.r_squared() {
            Some(share) => format!("R² {share:.2}"),
            None => "R² ?".to_owned(),
        };
        let weights = function.weights().map(|(name, weight)| format!("{name} {weight:.4}"));
        let weights: Vec<String> = weights.collect();
        let _ = writeln!(
            text,
            "  {name:<18} {:>8} observed  {predicted:<8}  {}",
            function.observed(),
            weights.join(", ")
        );
    }
    if let Some(share) = costs.whole().r_squared() {
        let observed = costs.whole().observed();
        let _ =
            writeln!(text, "  {:<18} {observed:>8} observed  R² {share:.2}", "at one site, whole");
    }
    text
}
