//! Plots as SVG: horizontal bars with their values as text, so that a legend is unnecessary.
//!
//! ```text
//!   title, and in small letters the recording
//!   Panel title
//!   name  ████████████░░░░░░░░░░░░  value as text          ░ the rest of the scale
//! ```
//!
//! A share has the whole as its scale, so a short bar is a small share whatever the other bars are.

use super::evaluated::Line;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;
use std::path::Path;

type Drawn = Result<(), Box<dyn Error>>;

const TODAY: RGBColor = RGBColor(0x8a, 0x8f, 0x98);
const PLAN: RGBColor = RGBColor(0x2f, 0x6f, 0xb3);
const REST: RGBColor = RGBColor(0xee, 0xf0, 0xf3);
const INK: RGBColor = RGBColor(0x22, 0x26, 0x2b);
const FAINT: RGBColor = RGBColor(0x5c, 0x63, 0x6b);

const WIDTH: u32 = 810;
/// Where bars begin and the full scale ends, from the left.
const BARS: (i32, i32) = (96, 640);
const BAR_HEIGHT: i32 = 20;
const BAR_STEP: i32 = 26;
const PANEL_HEAD: i32 = 44;
const PAGE_HEAD: i32 = 64;
/// The most sites of a plot; more bars are unreadable.
const SITES_MAX: usize = 40;

/// One bar: name, length, text and colour.
struct Bar {
    name: String,
    value: f64,
    text: String,
    colour: RGBColor,
}

/// Bars under a title, and the value of the full scale.
struct Panel {
    title: &'static str,
    scale: f64,
    bars: Vec<Bar>,
}

type Page<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn text(page: &Page<'_>, words: &str, at: (i32, i32), size: i32, colour: RGBColor) -> Drawn {
    let style = ("sans-serif", size).into_font().color(&colour);
    let style = style.pos(Pos::new(HPos::Left, VPos::Center));
    page.draw(&Text::new(words.to_owned(), at, style))?;
    Ok(())
}

fn draw(path: &Path, title: &str, subtitle: &str, panels: &[Panel]) -> Drawn {
    let height = |panel: &Panel| PANEL_HEAD + BAR_STEP * panel.bars.len() as i32;
    let total = PAGE_HEAD + panels.iter().map(height).sum::<i32>() + 12;
    let page = SVGBackend::new(path, (WIDTH, total as u32)).into_drawing_area();
    page.fill(&WHITE)?;
    text(&page, title, (12, 22), 20, INK)?;
    text(&page, subtitle, (12, 48), 13, FAINT)?;
    let mut top = PAGE_HEAD;
    for panel in panels {
        draw_panel(&page, panel, top)?;
        top += height(panel);
    }
    page.present().map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(())
}

fn draw_panel(page: &Page<'_>, panel: &Panel, top: i32) -> Drawn {
    text(page, panel.title, (12, top + PANEL_HEAD / 2), 15, INK)?;
    let (left, right) = BARS;
    for (at, bar) in panel.bars.iter().enumerate() {
        let y = top + PANEL_HEAD + at as i32 * BAR_STEP;
        let share = (bar.value / panel.scale).clamp(0.0, 1.0);
        let end = left + (f64::from(right - left) * share).round() as i32;
        let middle = y + BAR_HEIGHT / 2;
        text(page, &bar.name, (12, middle), 14, INK)?;
        page.draw(&Rectangle::new([(left, y), (right, y + BAR_HEIGHT)], REST.filled()))?;
        if end > left {
            page.draw(&Rectangle::new([(left, y), (end, y + BAR_HEIGHT)], bar.colour.filled()))?;
        }
        text(page, &bar.text, (right + 10, middle), 14, INK)?;
    }
    Ok(())
}

fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::MIN_POSITIVE, f64::max)
}

/// Draws the comparison on the held-out part: load, evenness, distributed transactions and moved
/// keys.
pub(crate) fn comparison(path: &Path, trace: &str, lines: &[Line], keys: usize) -> Drawn {
    let panel = |title, value: &dyn Fn(&Line) -> f64, say: &dyn Fn(&Line) -> String, scale| {
        let bar = |line: &Line| Bar {
            name: line.name.to_owned(),
            value: value(line),
            text: say(line),
            colour: if line.name == "now" { TODAY } else { PLAN },
        };
        let longest = largest(lines.iter().map(value));
        Panel { title, scale: longest.max(scale), bars: lines.iter().map(bar).collect() }
    };
    let busiest = |line: &Line| line.held_out.loads.iter().copied().fold(0.0, f64::max);
    let today = lines.first().map_or(1.0, busiest).max(f64::MIN_POSITIVE);
    let sites = lines.first().map_or(1, |line| line.held_out.loads.len());
    let moved = |line: &Line| line.upkeep.keys_moved as f64 / keys.max(1) as f64;
    let panels = [
        panel(
            "Load of the busiest site, co-accesses across sites included (today = 1)",
            &|line| busiest(line) / today,
            &|line| format!("{:.2}", busiest(line) / today),
            1.0,
        ),
        panel(
            "Accesses of the busiest site over the mean (1 = even; the full scale = all at one site)",
            &|line| line.held_out.access_imbalance,
            &|line| format!("{:.2}", line.held_out.access_imbalance),
            sites as f64,
        ),
        panel(
            "Transactions that touch more than one site",
            &|line| line.held_out.distributed,
            &|line| super::percent(line.held_out.distributed),
            1.0,
        ),
        panel(
            "Keys that have to move",
            &moved,
            &|line| format!("{} ({})", line.upkeep.keys_moved, super::percent(moved(line))),
            1.0,
        ),
    ];
    let title = format!("{trace} on {sites} sites, by strategy");
    let subtitle = "Measured on the later part of the recording, which no strategy has seen. Shorter \
                    bars are better everywhere.";
    draw(path, &title, subtitle, &panels)
}

/// Draws the load of each site, or of the busiest ones, before and after, on one scale.
pub(crate) fn loads(path: &Path, trace: &str, before: &[f64], after: &[f64]) -> Drawn {
    let of = |loads: &[f64], site: usize| loads.get(site).copied().unwrap_or(0.0);
    let mut sites: Vec<usize> = (0..before.len().max(after.len())).collect();
    let busiest = |site: usize| of(before, site).max(of(after, site));
    sites.sort_by(|&a, &b| busiest(b).total_cmp(&busiest(a)).then(a.cmp(&b)));
    sites.truncate(SITES_MAX);
    sites.sort_unstable();
    let scale = largest(sites.iter().map(|&site| busiest(site)));
    let panel = |title, loads: &[f64], colour| {
        let bar = |&site: &usize| Bar {
            name: format!("s{}", site + 1),
            value: of(loads, site),
            text: super::significant(of(loads, site)),
            colour,
        };
        Panel { title, scale, bars: sites.iter().map(bar).collect() }
    };
    let panels = [panel("Before", before, TODAY), panel("After", after, PLAN)];
    let title = format!("{trace}: load of each site, in accesses a second");
    let all = after.len().max(before.len());
    let which = match sites.len() == all {
        true => String::new(),
        false => format!(" The {SITES_MAX} busiest of {all} sites."),
    };
    let subtitle = format!(
        "Measured on the later part of the recording, which the strategy has not seen. Co-accesses \
         across sites are included.{which}"
    );
    draw(path, &title, &subtitle, &panels)
}
