//! `isomer reconfigure`: starts, watches, pauses, resumes, cancels and reverses plans on a running
//! server.
//!
//! The command is an SQL client: it uses `ALTER SYSTEM RECONFIGURE` and `isomer.reconfigurations`.

use crate::failure::Failure;
use crate::{clock, out, password, text};
use postgres::{Client, Config, NoTls, Row};
use serde::Serialize;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

/// The poll interval of a watched plan.
const LOOK: Duration = Duration::from_millis(200);
/// The columns of a [`Shown`].
const COLUMNS: &str = "number, reason, state, changes, coalesce(made, 0), rows, next, error, \
    (extract(epoch from coalesce(ended, now())) - extract(epoch from begun))::float8";

/// Starts, watches and controls plans that a running server executes online
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
    /// The server, as a connection string of PostgreSQL's clients
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
    /// Validates a plan, and starts it
    Start {
        /// The plan
        plan: PathBuf,
        /// Only validates it
        #[arg(long, conflicts_with = "watch")]
        dry_run: bool,
        /// Reports its progress until it has ended
        #[arg(long)]
        watch: bool,
    },
    /// Shows all plans since the start of the server; of ended ones, the last hundred
    List {
        /// Prints one line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Reports the progress of a plan until it has ended
    Watch {
        /// Its number
        number: u64,
    },
    /// Stops before the next change, until the plan is resumed
    Pause {
        /// Its number
        number: u64,
    },
    /// Resumes a paused plan
    Resume {
        /// Its number
        number: u64,
    },
    /// Undoes the changes made so far, and ends the plan
    Cancel {
        /// Its number
        number: u64,
    },
    /// Starts a new plan that undoes the changes of a plan
    Reverse {
        /// Its number
        number: u64,
        /// Reports the progress of the new plan until it has ended
        #[arg(long)]
        watch: bool,
    },
}

/// A plan as the server shows it.
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
        matches!(&*self.state, "done" | "cancelled" | "failed" | "interrupted")
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

/// Runs a subcommand of `isomer reconfigure`.
///
/// # Errors
/// If the server cannot be reached or returns an error, or if a watched plan was not completed.
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

/// A connection to a running server.
pub(crate) struct Server(Client);

impl Server {
    /// Connects with a connection string of PostgreSQL's clients.
    pub(crate) fn connect(connection: &str) -> Result<Server, Failure> {
        let wrong = |error: &postgres::Error| Failure::of_server(connection, error);
        let mut config: Config = connection.parse().map_err(|error| wrong(&error))?;
        if config.get_password().is_none()
            && let Some(password) = password::of(&config)
        {
            config.password(password);
        }
        let has_password = config.get_password().is_some();
        config.connect(NoTls).map(Server).map_err(|error| {
            let says = error.to_string() + &error.source().map_or_else(String::new, |it| it.to_string());
            match says.contains("password missing") && !has_password {
                true => Failure::failed(format!(
                    "{connection}: the server asks for a password: set PGPASSWORD, or have a line for it in ~/.pgpass or \
                     the file that PGPASSFILE names"
                )),
                false => wrong(&error),
            }
        })
    }

    /// Runs a query; returns its rows.
    pub(crate) fn query(&mut self, question: &str) -> Result<Vec<Row>, Failure> {
        let rows = self.0.query(question, &[]);
        rows.map_err(|error| Failure::of_server("the server", &error))
    }

    /// Runs a statement that starts a plan, and waits until the plan has ended; prints its progress
    /// if `says` is set. Returns the number of its changes.
    pub(crate) fn carry_out(&mut self, statement: &str, says: bool) -> Result<i64, Failure> {
        self.ask(statement)?;
        let Shown { number, changes, .. } = self.newest()?;
        self.until_ended(number, |shown| {
            if says && changes > 0 {
                out::line(shown.line());
            }
        })?;
        Ok(changes)
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

    /// Watches the newest plan, or prints its state.
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

    /// Waits until a plan has ended; calls `see` whenever its state or its number of made changes
    /// differs.
    ///
    /// # Errors
    /// If the plan ends in another state than done.
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

/// Quotes a text as an SQL literal.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
