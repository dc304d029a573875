//! `isomer reconfigure`: plans for a running server: start, watch, pause, resume, cancel and reverse them.
//!
//! It is a client like any other: what it does is SQL (`ALTER SYSTEM RECONFIGURE`, `isomer.reconfigurations`).

use crate::failure::Failure;
use crate::{clock, out, text};
use postgres::{Client, NoTls, Row};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// How often a plan that is watched is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// What is shown of each.
const COLUMNS: &str = "number, reason, state, changes, made, rows, next, error, \
    (extract(epoch from coalesce(ended, now())) - extract(epoch from begun))::float8";

/// Starts, watches and steers plans that a running server carries out beside its transactions
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "A plan has a change on each line, as `isomer advise --plan` writes it:

  split orders at 500
  add_replica orders[500] s2
  remaster orders[500] s2        # the old master becomes a replica
  remove_replica orders[500] s1

Examples:
  isomer reconfigure --server 'host=/tmp/shop port=5433 user=isomer' start shop.plan --watch
  isomer reconfigure --server ... list
  isomer reconfigure --server ... pause 3
  isomer reconfigure --server ... reverse 3 --watch")]
pub(crate) struct ReconfigureArgs {
    /// The server, as PostgreSQL's clients write it
    #[arg(
        long,
        value_name = "CONNECTION",
        default_value = "host=127.0.0.1 port=5433 user=isomer dbname=isomer"
    )]
    server: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum Command {
    /// Tries a plan, and begins to carry it out
    Start {
        /// The plan
        plan: PathBuf,
        /// Only tries it
        #[arg(long, conflicts_with = "watch")]
        dry_run: bool,
        /// Waits until it has ended, and tells how it goes
        #[arg(long)]
        watch: bool,
    },
    /// Shows all since the server was started; of those that have ended, the last hundred
    List {
        /// Prints one line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Tells how one goes until it has ended
    Watch {
        /// Its number
        number: u64,
    },
    /// Makes no further change
    Pause {
        /// Its number
        number: u64,
    },
    /// Goes on
    Resume {
        /// Its number
        number: u64,
    },
    /// Takes back what was made
    Cancel {
        /// Its number
        number: u64,
    },
    /// Begins another that takes back what one has done
    Reverse {
        /// Its number
        number: u64,
        /// Waits until that has ended
        #[arg(long)]
        watch: bool,
    },
}

/// One of them, as the server shows it.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Shown {
    number: i64,
    reason: String,
    state: String,
    changes: i64,
    made: i64,
    rows: i64,
    next: Option<String>,
    error: Option<String>,
    seconds: f64,
}

impl Shown {
    fn of(row: &Row) -> Shown {
        Shown {
            number: row.get(0),
            reason: row.get(1),
            state: row.get(2),
            changes: row.get(3),
            made: row.get(4),
            rows: row.get(5),
            next: row.get(6),
            error: row.get(7),
            seconds: row.get(8),
        }
    }

    fn has_ended(&self) -> bool {
        matches!(&*self.state, "done" | "cancelled" | "failed")
    }

    fn line(&self) -> String {
        let bar = text::bar(self.made as f64 / self.changes.max(1) as f64, 20);
        let next = self.next.as_deref().map_or(String::new(), |next| format!("  next: {next}"));
        let error = self.error.as_deref().map_or(String::new(), |error| format!("  {error}"));
        format!(
            "{}  {:<9} {bar} {} of {} changes, {} rows copied, {:.1} s  {}{next}{error}",
            self.number,
            self.state,
            self.made,
            self.changes,
            text::count(self.rows as u64),
            self.seconds,
            self.reason
        )
    }
}

/// Does what was asked for.
///
/// # Errors
/// If the server cannot be reached, or refuses it; or if a plan that was watched was not carried out.
pub(crate) fn run(args: &ReconfigureArgs) -> Result<(), Failure> {
    let mut server = Server::connect(&args.server)?;
    match &args.command {
        Command::Start { plan, dry_run, watch } => {
            let text = std::fs::read_to_string(plan)
                .map_err(|error| Failure::failed(format!("{}: {error}", plan.display())))?;
            let quoted = quoted(&text);
            if *dry_run {
                server.ask(&format!("alter system reconfigure {quoted} dry run"))?;
                out::line("the plan can be carried out; nothing was changed");
                return Ok(());
            }
            server.ask(&format!("alter system reconfigure {quoted}"))?;
            server.follow_newest(*watch)
        }
        Command::List { json } => {
            let all = server.all()?;
            match json {
                true => out::line(serde_json::to_string(&all).map_err(Failure::failed)?),
                false => all.iter().for_each(|shown| out::line(shown.line())),
            }
            Ok(())
        }
        Command::Watch { number } => server.watch(*number as i64),
        Command::Pause { number } => server.control("pause", *number),
        Command::Resume { number } => server.control("resume", *number),
        Command::Cancel { number } => server.control("cancel", *number),
        Command::Reverse { number, watch } => {
            server.ask(&format!("alter system reverse reconfiguration {number}"))?;
            server.follow_newest(*watch)
        }
    }
}

/// A running server, asked in SQL.
pub(crate) struct Server(Client);

impl Server {
    /// Connects as clients of PostgreSQL do.
    pub(crate) fn connect(connection: &str) -> Result<Server, Failure> {
        let client = Client::connect(connection, NoTls);
        client.map(Server).map_err(|error| Failure::of_server(connection, &error))
    }

    /// Rows of a question.
    pub(crate) fn query(&mut self, question: &str) -> Result<Vec<Row>, Failure> {
        let rows = self.0.query(question, &[]);
        rows.map_err(|error| Failure::of_server("the server", &error))
    }

    /// Has a plan carried out, and waits until it is; if it `says` so, as it goes.
    pub(crate) fn carry_out(&mut self, plan: &str, says: bool) -> Result<(), Failure> {
        self.ask(&format!("alter system reconfigure {}", quoted(plan)))?;
        let number = self.newest()?.number;
        self.until_ended(number, |shown| {
            if says {
                out::line(shown.line());
            }
        })
    }

    fn ask(&mut self, statement: &str) -> Result<(), Failure> {
        self.0.batch_execute(statement).map_err(|error| Failure::of_server("the server", &error))
    }

    fn control(&mut self, verb: &str, number: u64) -> Result<(), Failure> {
        self.ask(&format!("alter system {verb} reconfiguration {number}"))?;
        out::line(self.shown(number as i64)?.line());
        Ok(())
    }

    fn all(&mut self) -> Result<Vec<Shown>, Failure> {
        let query = format!("select {COLUMNS} from isomer.reconfigurations order by number");
        Ok(self.query(&query)?.iter().map(Shown::of).collect())
    }

    fn shown(&mut self, number: i64) -> Result<Shown, Failure> {
        let found = self.all()?.into_iter().find(|shown| shown.number == number);
        found.ok_or_else(|| Failure::failed(format!("there is no reconfiguration {number}")))
    }

    /// Of the one that was begun last: tells its number, or how it goes.
    fn follow_newest(&mut self, watch: bool) -> Result<(), Failure> {
        let newest = self.newest()?;
        match watch {
            true => self.watch(newest.number),
            false => {
                out::line(newest.line());
                Ok(())
            }
        }
    }

    fn newest(&mut self) -> Result<Shown, Failure> {
        self.all()?.pop().ok_or_else(|| Failure::failed("the server has forgotten it"))
    }

    fn watch(&mut self, number: i64) -> Result<(), Failure> {
        self.until_ended(number, |shown| out::line(shown.line()))
    }

    /// Waits until a plan has ended; calls `see` whenever it has got on.
    fn until_ended(&mut self, number: i64, see: impl Fn(&Shown)) -> Result<(), Failure> {
        let mut before = (String::new(), -1);
        loop {
            let shown = self.shown(number)?;
            let now = (shown.state.clone(), shown.made);
            if now != before {
                see(&shown);
                before = now;
            }
            if shown.has_ended() {
                let why = shown.error.clone().unwrap_or_default();
                let failed = || Failure::failed(format!("the plan is {}: {why}", shown.state));
                return (shown.state == "done").then_some(()).ok_or_else(failed);
            }
            clock::sleep(LOOK);
        }
    }
}

/// A text as SQL has it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
