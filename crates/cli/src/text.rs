//! Formats numbers, bars and tables for people.

use std::fmt::Write as _;

const SPARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// `1234567` as `1,234,567`.
pub fn count(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or(u64::MAX).to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share as a percentage: `98.7 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Nanoseconds with a unit: `850 ns`, `12.5 µs`, `1.40 ms`, `2.10 s`.
pub fn duration(ns: f64) -> String {
    match ns {
        _ if ns < 1e3 => format!("{ns:.0} ns"),
        _ if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        _ if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

/// Bytes with a unit: `512 B`, `1.5 KiB`, `31.2 MiB`.
pub fn bytes(bytes: usize) -> String {
    let bytes = bytes as f64;
    match bytes {
        _ if bytes < 1024.0 => format!("{bytes:.0} B"),
        _ if bytes < 1024.0 * 1024.0 => format!("{:.1} KiB", bytes / 1024.0),
        _ => format!("{:.1} MiB", bytes / (1024.0 * 1024.0)),
    }
}

/// The last `width` numbers as a row of little bars between 0 and `most`.
pub fn sparkline(numbers: &[f64], most: f64, width: usize) -> String {
    let last = &numbers[numbers.len().saturating_sub(width)..];
    let level = |number: &f64| {
        let level = number / most * (SPARKS.len() - 1) as f64;
        SPARKS[(level.round() as usize).min(SPARKS.len() - 1)]
    };
    last.iter().map(level).collect()
}

/// A share as a bar of at most `width` blocks.
pub fn bar(share: f64, width: usize) -> String {
    let full = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    "█".repeat(full) + &" ".repeat(width - full)
}

/// Cuts a line to `width` characters.
pub fn fit(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let mut text: String = line.chars().take(width.saturating_sub(1)).collect();
    text.push('…');
    text
}

/// Rows of cells as aligned lines: the first column to the left, the last without padding, the
/// others to the right.
pub fn columns(rows: &[Vec<String>], indent: usize) -> String {
    let cells = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |cell: usize| {
        rows.iter().filter_map(|row| row.get(cell)).map(|text| text.chars().count()).max()
    };
    let widths: Vec<usize> = (0..cells).map(|cell| width(cell).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = " ".repeat(indent);
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Writing to a String cannot fail.
            let _ = match at {
                0 => write!(line, "{cell:<width$}"),
                _ if at + 1 == cells => write!(line, "  {cell}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units_and_commas() {
        assert_eq!(count(7u64), "7");
        assert_eq!(count(1_234_567u64), "1,234,567");
        assert_eq!(percent(0.9871), "98.7 %");
        assert_eq!(duration(12_512.0), "12.5 µs");
        assert_eq!(duration(2.1e9), "2.10 s");
        assert_eq!(bytes(1536), "1.5 KiB");
    }

    #[test]
    fn bars_and_lines_fit() {
        assert_eq!(sparkline(&[9.0, 0.0, 5.0, 10.0], 10.0, 3), "▁▅█");
        assert_eq!(bar(0.5, 4), "██  ");
        assert_eq!(fit("a long line", 6), "a lon…");
        let rows = [vec!["a".into(), "1".into(), "x".into()], vec!["bc".into(), "10".into()]];
        assert_eq!(columns(&rows, 1), " a    1  x\n bc  10\n");
    }
}
