//! Loads of real machines, which drive the Google workload.
//!
//! A file has lines of time, machine and load (`data/README.md`); further fields are ignored.

use isomer_plan::generate::LoadTrace;
use std::collections::BTreeMap;
use std::io::Read;

/// Reads loads by time, plain or zstd, of the first `machines` machines, or of all.
pub fn read(input: impl Read, machines: Option<usize>) -> Result<LoadTrace, String> {
    let rows = isomer_plan::recording::numbers(input).map_err(|error| error.to_string())?;
    let mut points: Vec<(f64, BTreeMap<usize, f64>)> = Vec::new();
    let mut count = 0;
    for (at, row) in rows.iter().enumerate() {
        let [time, machine, load, ..] = row[..] else {
            return Err(format!("line {}: time, machine and load are needed", at + 2));
        };
        if machine < 0.0 || machine.fract() != 0.0 {
            let right = "whole numbers from 0 on are";
            return Err(format!("line {}: {machine} is no machine: {right}", at + 2));
        }
        if points.last().is_none_or(|(last, _)| *last != time) {
            points.push((time, BTreeMap::new()));
        }
        let machine = machine as usize;
        if let Some((_, loads)) = points.last_mut()
            && machines.is_none_or(|machines| machine < machines)
        {
            loads.insert(machine, load);
            count = count.max(machine + 1);
        }
    }
    let count = machines.unwrap_or(count);
    let row = |(_, loads): (f64, BTreeMap<usize, f64>)| {
        (0..count).map(|machine| loads.get(&machine).copied().unwrap_or(0.0)).collect()
    };
    LoadTrace::new(points.into_iter().map(row).collect()).map_err(|error| error.to_string())
}
