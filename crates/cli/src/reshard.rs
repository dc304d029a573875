//! `isomer reshard`: another shard key for a table of a running server, while it is used.
//!
//! It is a client like any other: what it does is SQL (`ALTER TABLE .. SHARD BY`, `isomer.jobs`).

use crate::failure::Failure;
use crate::{clock, out};
use postgres::{Client, Config, NoTls};
use std::sync::mpsc;
use std::time::Duration;

/// How often the change is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Gives a table of a running server another shard key, while clients use the table
///
/// Rows are placed by their shard key, so transactions that name it go to one site. The rows are written
/// in their new order beside the old one, and then the two change places; whoever reads or writes the table meanwhile
/// is not refused anything. Interrupted before that moment, the command leaves the table as it was.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer reshard accounts --by bid --dry-run
  isomer reshard accounts --by bid --server 'host=/tmp/shop port=5433 user=isomer'
  isomer reshard orders --by customer,number --keep-old
  isomer reshard accounts --by default          by the primary key

`isomer shard-key` says which columns would be good ones.")]
pub(crate) struct ReshardArgs {
    /// The table
    table: String,
    /// The columns of the shard key, with commas between; or `default`: the primary key
    #[arg(long, value_name = "COLUMNS")]
    by: String,
    /// Only says what would come of it
    #[arg(long)]
    dry_run: bool,
    /// Keeps the rows in the old order too: going back is done in a moment, and each write is done twice until then
    #[arg(long)]
    keep_old: bool,
    /// The server, as PostgreSQL's clients write it
    #[arg(
        long,
        value_name = "CONNECTION",
        default_value = "host=127.0.0.1 port=5433 user=isomer dbname=isomer"
    )]
    server: String,
}

/// Does it, and tells how it goes.
///
/// # Errors
/// If the server cannot be reached, or refuses it.
pub(crate) fn run(args: &ReshardArgs) -> Result<(), Failure> {
    let mut config: Config = args.server.parse().map_err(Failure::usage)?;
    config.notice_callback(|notice| out::line(notice.message()));
    let connect =
        || config.connect(NoTls).map_err(|error| Failure::of_server(&args.server, &error));
    let (mut client, mut looker) = (connect()?, connect()?);
    let statement = statement(args);
    let refused = |error| Failure::of_server(&statement, &error);
    if args.dry_run {
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
    let by = match args.by.as_str() {
        "default" => "DEFAULT".to_owned(),
        names => {
            let names = names.split(',').map(|name| quoted(name.trim()));
            format!("({})", names.collect::<Vec<_>>().join(", "))
        }
    };
    let keep_old = if args.keep_old { " KEEP OLD" } else { "" };
    let dry_run = if args.dry_run { " DRY RUN" } else { "" };
    format!("ALTER TABLE {} SHARD BY {by}{keep_old}{dry_run}", quoted(&args.table))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Tells what the server says of such changes, until this one has ended.
fn follow(looker: &mut Client, ends: &mpsc::Receiver<()>) {
    let query = "select state from isomer.jobs where change like 'ALTER TABLE % SHARD BY %'";
    let mut before = String::new();
    while ends.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
        // It is the change that matters: whoever looks on may lose sight of it.
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
    }
}
