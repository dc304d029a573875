//! The planning commands: advice from a recorded workload, without a running cluster.
//!
//! ```text
//!   isomer trace import flights flights.csv.zst --out flights.trace
//!   isomer compare flights.trace --sites 4 --plot flights.svg
//!   isomer advise flights.trace --sites 4 --strategy clay
//! ```

pub(crate) mod advise;
pub(crate) mod compare;
mod evaluated;
mod input;
mod plot;
pub mod progress;
pub(crate) mod reshard_plan;
pub(crate) mod route;
pub(crate) mod shard_key;
mod strategies;
pub(crate) mod trace;

use comfy_table::{LineStyle, TableStyle};

/// The result of a command.
pub type Outcome = Result<(), Box<dyn std::error::Error>>;

/// The planning commands.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Plans a better placement for a recorded workload, with a reason for each move.
    Advise(advise::Args),
    /// Compares all strategies on a recorded workload.
    Compare(compare::Args),
    /// Routes a batch of transactions.
    Route(route::Args),
    /// Plans where the chunks of a new shard key go.
    ReshardPlan(reshard_plan::Args),
    /// Ranks the candidate shard keys of a table.
    ShardKey(shard_key::Args),
    /// Imports, describes or generates recordings.
    #[command(subcommand)]
    Trace(trace::Command),
}

/// Runs a planning command.
pub(crate) fn run(command: Command) -> Outcome {
    match command {
        Command::Advise(args) => advise::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Route(args) => route::run(&args),
        Command::ReshardPlan(args) => reshard_plan::run(&args),
        Command::ShardKey(args) => shard_key::run(&args),
        Command::Trace(command) => trace::run(&command),
    }
}

/// Opens a file, naming it if that fails.
fn open_file(path: &std::path::Path) -> Result<std::fs::File, Box<dyn std::error::Error>> {
    std::fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Reads a whole file as text, naming it if that fails.
fn read_text(path: &std::path::Path) -> Result<String, Box<dyn std::error::Error>> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Writes a whole file, naming it if that fails.
fn write_text(path: &std::path::Path, text: &str) -> Outcome {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Prints a line. A closed pipe is no error.
pub fn print(text: &str) -> Outcome {
    use std::io::{ErrorKind, Write};
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// Lines above, below and under the header, none between rows.
const TABLE_STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// An empty table in the style of all commands.
pub fn table(header: &[&str]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(TABLE_STYLE);
    table.set_header(header.to_vec());
    table
}

/// A share in percent.
fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Formats a number with three significant digits, or with all digits before the point.
fn significant(number: f64) -> String {
    match number {
        _ if number >= 99.95 || number == 0.0 => format!("{number:.0}"),
        _ if number >= 9.995 => format!("{number:.1}"),
        _ if number >= 0.9995 => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}
