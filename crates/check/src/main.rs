//! `isomer-check FILE`: judges a history that a test has written to a file.

use isomer_check::{History, judge};
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: isomer-check FILE");
        return ExitCode::from(2);
    };
    let history = std::fs::read_to_string(&path).map_err(|error| error.to_string());
    let history: History = match history.and_then(|text| text.parse()) {
        Ok(history) => history,
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::from(2);
        }
    };
    let wrong = judge(&history);
    wrong.iter().for_each(|anomaly| println!("{anomaly}\n"));
    println!("{} transactions, {} anomalies", history.transactions.len(), wrong.len());
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
