//! Plots as SVG: bars that a person can read without a legend.

use super::compare::Line;
use plotters::prelude::*;
use std::error::Error;
use std::path::Path;

type Drawn = Result<(), Box<dyn Error>>;

const NOW: RGBColor = RGBColor(0x8a, 0x8f, 0x98);
const PLAN: RGBColor = RGBColor(0x2f, 0x6f, 0xb3);

/// One bar: its name, how long it is, and what it says.
struct Bar {
    name: String,
    value: f64,
    text: String,
    colour: RGBColor,
}

/// Horizontal bars under a title.
fn bars<DB: DrawingBackend>(
    area: &DrawingArea<DB, plotters::coord::Shift>,
    title: &str,
    bars: &[Bar],
) -> Drawn
where
    DB::ErrorType: 'static,
{
    let (width, height) = area.dim_in_pixel();
    let (left, right, top) = (84, 120, 34);
    area.draw(&Text::new(title.to_owned(), (8, 8), ("sans-serif", 16).into_font()))?;
    let longest = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let step = (height as i32 - top) / bars.len().max(1) as i32;
    for (at, bar) in bars.iter().enumerate() {
        let y = top + at as i32 * step;
        let room = (width as i32 - left - right).max(1);
        let length = (f64::from(room) * bar.value / longest) as i32;
        let middle = y + step / 2 - 7;
        area.draw(&Text::new(bar.name.clone(), (8, middle), ("sans-serif", 14).into_font()))?;
        let corners = [(left, y + 3), (left + length.max(1), y + step - 3)];
        area.draw(&Rectangle::new(corners, bar.colour.filled()))?;
        let at = (left + length + 6, middle);
        area.draw(&Text::new(bar.text.clone(), at, ("sans-serif", 14).into_font()))?;
    }
    Ok(())
}

/// The comparison: load, distributed transactions and keys moved, on what was held out.
pub(crate) fn comparison(path: &Path, lines: &[Line], keys: usize) -> Drawn {
    let height = 60 + 3 * (40 + 26 * lines.len() as u32);
    let root = SVGBackend::new(path, (760, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let panels = root.split_evenly((3, 1));
    let colour = |line: &Line| if line.name == "now" { NOW } else { PLAN };
    let make = |value: &dyn Fn(&Line) -> f64, text: &dyn Fn(&Line) -> String| -> Vec<Bar> {
        let bar = |line: &Line| Bar {
            name: line.name.to_owned(),
            value: value(line),
            text: text(line),
            colour: colour(line),
        };
        lines.iter().map(bar).collect()
    };
    let highest = |line: &Line| line.held_out.loads.iter().copied().fold(0.0, f64::max);
    let now = lines.first().map_or(1.0, highest).max(f64::MIN_POSITIVE);
    let load = make(&highest, &|l| {
        format!("{:.2} (mean x {:.2})", highest(l) / now, l.held_out.imbalance)
    });
    let spread = make(&|l| l.held_out.distributed, &|l| super::percent(l.held_out.distributed));
    let moved = make(&|l| l.upkeep.keys_moved as f64, &|l| {
        let share = l.upkeep.keys_moved as f64 / keys.max(1) as f64;
        format!("{} ({})", l.upkeep.keys_moved, super::percent(share))
    });
    bars(&panels[0], "Highest load of a site by Equation 2, held out (now = 1)", &load)?;
    bars(&panels[1], "Distributed transactions, held out", &spread)?;
    bars(&panels[2], "Keys moved", &moved)?;
    root.present()?;
    Ok(())
}

/// The load of each site, before and after.
pub(crate) fn loads(path: &Path, before: &[f64], after: &[f64]) -> Drawn {
    let make = |loads: &[f64], colour: RGBColor| -> Vec<Bar> {
        let bar = |(at, &value): (usize, &f64)| Bar {
            name: format!("s{}", at + 1),
            value,
            text: format!("{value:.1}"),
            colour,
        };
        loads.iter().enumerate().map(bar).collect()
    };
    let height = 80 + 26 * (before.len() + after.len()) as u32;
    let root = SVGBackend::new(path, (760, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let share = f64::from(height) * before.len() as f64 / (before.len() + after.len()) as f64;
    let (upper, lower) = root.split_vertically(share as u32);
    bars(&upper, "Load per site and second before, held out", &make(before, NOW))?;
    bars(&lower, "Load per site and second after, held out", &make(after, PLAN))?;
    root.present()?;
    Ok(())
}
