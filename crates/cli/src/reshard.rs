//! `isomer reshard`: changes the shard key of a table of a running server, while clients use it.
//!
//! The command is an SQL client: it uses `ALTER TABLE .. SHARD BY` and `isomer.jobs`.

use crate::failure::Failure;
use crate::{clock, out};
use postgres::{Client, Config, NoTls};
use std::sync::mpsc;
use std::time::Duration;

/// Interval between two looks at the state of the change.
const LOOK: Duration = Duration::from_secs(1);

/// Changes the shard key of a table of a running server, while clients use the table
///
/// Rows are placed by their shard key, so transactions that name it run at one site. The server
/// builds the new layout of the rows beside the old one, and then switches to it. Clients can read
/// and write the table all the time. Interrupted before the switch, the command leaves the table as
/// it was.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer reshard accounts --by bid --dry-run
  isomer reshard accounts --by bid --server 'host=/tmp/shop port=5433 user=isomer'
  isomer reshard orders --by customer,number --keep-old
  isomer reshard accounts --by default          by the primary key
  isomer reshard accounts --by bid --budget 5000
  isomer reshard accounts --pause               from anywhere, while it is under way
  isomer reshard accounts --resume --budget 500

`isomer shard-key` says which columns would be good ones.")]
pub(crate) struct ReshardArgs {
    /// The table
    table: String,
    /// The columns of the shard key, separated by commas; or `default`: the primary key
    #[arg(long, value_name = "COLUMNS", required_unless_present_any = ["pause", "resume", "cancel"])]
    by: Option<String>,
    /// Only shows the effect of the change
    #[arg(long)]
    dry_run: bool,
    /// Keeps the old layout of the rows, too. A change back is then immediate, but each write is
    /// made twice until the old layout is dropped
    #[arg(long)]
    keep_old: bool,
    /// Copies at most this many rows a second
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..))]
    budget: Option<u64>,
    /// Changes the key even if the columns have fewer different values than the table has
    /// partitions
    #[arg(long)]
    force: bool,
    /// Pauses the running change
    #[arg(long, conflicts_with_all = ["by", "dry_run", "keep_old", "force", "budget"])]
    pause: bool,
    /// Resumes the paused change, with the same or another budget
    #[arg(long, conflicts_with_all = ["by", "dry_run", "keep_old", "force", "pause"])]
    resume: bool,
    /// Cancels the running change, and leaves the table as it was
    #[arg(long, conflicts_with_all = ["by", "dry_run", "keep_old", "force", "budget", "pause", "resume"])]
    cancel: bool,
    /// The server, as a connection string of PostgreSQL's clients
    #[arg(
        long,
        value_name = "CONNECTION",
        default_value = "host=127.0.0.1 port=5433 user=isomer dbname=isomer"
    )]
    server: String,
}

/// Makes the change, and prints its progress.
///
/// # Errors
/// If the server cannot be reached, or refuses the change.
pub(crate) fn run(args: &ReshardArgs) -> Result<(), Failure> {
    let mut config: Config = args.server.parse().map_err(Failure::usage)?;
    config.notice_callback(|notice| out::line(notice.message()));
    let connect =
        || config.connect(NoTls).map_err(|error| Failure::of_server(&args.server, &error));
    let (mut client, mut looker) = (connect()?, connect()?);
    let statement = statement(args);
    let refused = |error| Failure::of_server(&statement, &error);
    if args.dry_run || args.by.is_none() {
        return client.batch_execute(&statement).map_err(refused);
    }
    std::thread::scope(|scope| {
        let (ended, ends) = mpsc::channel::<()>();
        scope.spawn(move || follow(&mut looker, &ends));
        let begun = clock::now();
        let done = client.batch_execute(&statement).map_err(refused);
        drop(ended);
        done.map(|()| out::line(format!("done in {:.1} s", begun.elapsed().as_secs_f64())))
    })
}

fn statement(args: &ReshardArgs) -> String {
    let budget = args.budget.map_or(String::new(), |rows| format!(" BUDGET {rows}"));
    let table = quoted(&args.table);
    let Some(by) = &args.by else {
        let what = match (args.pause, args.cancel) {
            (true, _) => "PAUSE",
            (_, true) => "CANCEL",
            _ => "RESUME",
        };
        return format!("ALTER TABLE {table} {what} SHARD BY{budget}");
    };
    let by = match by.as_str() {
        "default" => "DEFAULT".to_owned(),
        names => {
            let names = names.split(',').map(|name| quoted(name.trim()));
            format!("({})", names.collect::<Vec<_>>().join(", "))
        }
    };
    let keep_old = if args.keep_old { " KEEP OLD" } else { "" };
    let force = if args.force { " FORCE" } else { "" };
    let dry_run = if args.dry_run { " DRY RUN" } else { "" };
    format!("ALTER TABLE {table} SHARD BY {by}{keep_old}{budget}{force}{dry_run}")
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Prints the state of resharding jobs, whenever it differs, until the change has ended.
fn follow(looker: &mut Client, ends: &mpsc::Receiver<()>) {
    let query = "select state from isomer.jobs where change like 'ALTER TABLE % SHARD BY %'";
    let mut before = String::new();
    while ends.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
        // A failure to show the state must not end the change.
        let Ok(rows) = looker.query(query, &[]) else { return };
        for row in rows {
            let state: String = row.get(0);
            if state != before {
                out::line(&state);
                before = state;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: ReshardArgs,
    }

    #[test]
    fn names_are_taken_as_they_are() {
        let said =
            |words: &[&str]| statement(&Cli::parse_from([&["reshard"], words].concat()).args);
        assert_eq!(
            said(&["order lines", "--by", "Customer, number", "--keep-old"]),
            r#"ALTER TABLE "order lines" SHARD BY ("Customer", "number") KEEP OLD"#
        );
        assert_eq!(
            said(&["t", "--by", "default", "--dry-run"]),
            r#"ALTER TABLE "t" SHARD BY DEFAULT DRY RUN"#
        );
        assert_eq!(
            said(&["t", "--by", "a", "--budget", "5", "--force"]),
            r#"ALTER TABLE "t" SHARD BY ("a") BUDGET 5 FORCE"#
        );
        assert_eq!(
            said(&["t", "--resume", "--budget", "5"]),
            r#"ALTER TABLE "t" RESUME SHARD BY BUDGET 5"#
        );
        assert_eq!(said(&["t", "--cancel"]), r#"ALTER TABLE "t" CANCEL SHARD BY"#);
        assert!(Cli::try_parse_from(["reshard", "t"]).is_err(), "no column is given");
    }
}
