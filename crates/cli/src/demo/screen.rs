//! The live view on a terminal.

use super::view::View;
use crate::text;
use crossterm::event::{Event, KeyCode, KeyModifiers, poll, read};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{cursor, execute, queue};
use std::io::{self, Stdout, Write, stdout};
use std::time::Duration;

const SPARKS: usize = 48;

/// A terminal that shows the run. Dropping it restores the terminal.
pub(super) struct Screen {
    out: Stdout,
    is_over: bool,
}

impl Screen {
    pub(super) fn open() -> io::Result<Screen> {
        enable_raw_mode()?;
        let mut screen = Screen { out: stdout(), is_over: false };
        execute!(screen.out, EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// Waits for `pause`; true if the user has pressed q, Esc or Ctrl-C.
    pub(super) fn wait(&mut self, pause: Duration) -> io::Result<bool> {
        let end = crate::clock::now() + pause;
        while let Some(left) = end.checked_duration_since(crate::clock::now()) {
            if !poll(left)? {
                break;
            }
            if let Event::Key(key) = read()? {
                let is_quit = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
                let is_interrupt =
                    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                self.is_over |= is_quit || is_interrupt;
            }
        }
        Ok(self.is_over)
    }

    /// Shows the state of the run.
    pub(super) fn draw(&mut self, view: &View<'_>) -> io::Result<()> {
        let (width, height) = size()?;
        let (width, height) = (usize::from(width), usize::from(height));
        queue!(self.out, cursor::MoveTo(0, 0))?;
        for (at, line) in lines(view, height).iter().take(height).enumerate() {
            let attribute = if at == 0 { Attribute::Bold } else { Attribute::Reset };
            let row = u16::try_from(at).unwrap_or(u16::MAX);
            queue!(
                self.out,
                cursor::MoveTo(0, row),
                SetAttribute(attribute),
                Print(text::fit(line, width)),
                SetAttribute(Attribute::Reset),
                Clear(ClearType::UntilNewLine),
            )?;
        }
        queue!(self.out, Clear(ClearType::FromCursorDown))?;
        self.out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A failure to restore the terminal cannot be shown.
        let _ = execute!(self.out, LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
    }
}

fn lines(view: &View<'_>, height: usize) -> Vec<String> {
    let Some(now) = view.series.intervals.last() else { return Vec::new() };
    let throughput = view.series.of(|interval| interval.throughput());
    let most = throughput.iter().copied().fold(1.0, f64::max);
    let shares = view.series.of(|interval| interval.single_site_share());
    let changes = view.series.of(|interval| interval.change_rate());
    let most_changes = changes.iter().copied().fold(1.0, f64::max);
    let spark =
        |numbers: &[f64], most| format!("{:<SPARKS$}", text::sparkline(numbers, most, SPARKS));
    let latency = now.latency;
    let mut lines = vec![
        format!("Isomer demo   {:.1} of {} s   (q ends it)", now.end_s, view.seconds),
        String::new(),
        format!(
            " throughput    {}  {} tx/s",
            spark(&throughput, most),
            text::count(now.throughput() as u64)
        ),
        format!(
            " single-site   {}  {}",
            spark(&shares, 1.0),
            text::percent(now.single_site_share())
        ),
        format!(
            " changes       {}  {}/s",
            spark(&changes, most_changes),
            text::count(now.change_rate() as u64)
        ),
        format!(
            " latency       p50 {}   p95 {}   p99 {}",
            text::duration(latency.p50_ns as f64),
            text::duration(latency.p95_ns as f64),
            text::duration(latency.p99_ns as f64)
        ),
        String::new(),
    ];
    lines.extend(sites(view));
    lines.push(String::new());
    lines.extend(design(view));
    lines.push(String::new());
    let log = view.log.changes();
    let room = height.saturating_sub(lines.len()).max(1);
    lines.extend(log.last.iter().rev().take(room).map(|change| change.line()));
    lines
}

fn sites(view: &View<'_>) -> Vec<String> {
    let last = &view.series.last;
    let line = |site: isomer_cluster::SiteReport| {
        let share = last.at(site.site) as f64 / last.committed.max(1) as f64;
        let bar = text::bar(share, 30);
        let (percent, memory) = (text::percent(share), text::bytes(site.memory_bytes));
        let name = site.site.to_string();
        format!(" site {name:<4} {bar} {percent:>7} of the transactions   {memory:>10} of rows")
    };
    view.db.sites().into_iter().map(line).collect()
}

fn design(view: &View<'_>) -> Vec<String> {
    let (entries, bytes) = view.db.routing_size();
    let counts: Vec<String> = view
        .log
        .changes()
        .counts()
        .map(|(operator, count)| format!("{operator} {}", text::count(count)))
        .collect();
    let partitions = text::count(view.db.design().partition_count() as u64);
    vec![
        format!(" changes: {}", counts.join("  ")),
        format!(
            " {partitions} partitions, routing table of {} entries ({})",
            text::count(entries as u64),
            text::bytes(bytes)
        ),
    ]
}
