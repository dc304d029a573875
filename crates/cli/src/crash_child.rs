//! `isomer crash-child FOLDER`: a test aid, a process to be killed.
//!
//! It opens a database in a folder, moves money between accounts and changes the design from
//! several threads. It reports each event as a line on standard output:
//!
//! ```text
//!   open                        the database is open; missing accounts have been created
//!   commit ACCOUNT NUMBER       the NUMBER-th transfer from ACCOUNT is acknowledged
//!   begin CHANGE                a change of the design starts
//!   done CHANGE                 it has taken effect
//!   refused CHANGE              it was no longer possible
//!   error TEXT                  an error that should not happen
//! ```
//!
//! Each account has one thread as its payer, and counts the transfers that it paid for. So the
//! accounts tell the test which transfers took effect after the process was killed
//! (`tests/crash.rs`).

use crate::failure::Failure;
use crate::out;
use crate::work::inspect;
use isomer_cluster::{Abort, Checkpointing, Database, Error, Options, Session, Txn};
use isomer_design::{
    Change, Column, ColumnType, Design, Footprint, Key, KeyRange, Schema, SiteId, TableId, Value,
};
use isomer_strategy::{OnDemand, Refused, Report, Request, Strategy, Verdict};
use isomer_workload::{Random, random};
use rand::RngExt;
use std::io::Write;
use std::path::PathBuf;

const SITES: u16 = 3;
const TABLE: TableId = TableId(1);
const ACCOUNTS: i64 = 48;
const BALANCE: i64 = 1000;
const PAYERS: i64 = 3;
/// Changes between two checkpoints.
const CHANGES_PER_CHECKPOINT: u32 = 40;

/// A test aid: moves money in a database, reports acknowledgements, and waits to be killed
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct CrashChildArgs {
    /// The folder of the database
    folder: PathBuf,
    /// Seed of the run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Prints the accounts and the design, and exits
    #[arg(long)]
    show: bool,
}

/// Runs until the process is killed.
///
/// # Errors
/// Any error; none is expected.
pub(crate) fn run(args: &CrashChildArgs) -> Result<(), Failure> {
    // Frequent checkpoints, so that most kills come during or just after one.
    let often = Checkpointing { log_bytes: 64 << 10, ..Checkpointing::default() };
    let options = Options::in_folder(&args.folder, SITES).checkpoints(often);
    let options = if args.show { options } else { options.strategy(Telling::default()) };
    let db = Database::open(options)?;
    if !args.show {
        db.watch(|event| say(&format!("done {}", event.text)));
    }
    if db.design().tables().next().is_none() {
        let third = |part: u16| Key::int(i64::from(part) * ACCOUNTS / i64::from(SITES));
        let start = |part| if part == 0 { Key::min() } else { third(part) };
        let parts: Vec<(Key, SiteId)> = (0..SITES).map(|p| (start(p), SiteId(p + 1))).collect();
        db.create_table(schema()?, &parts)?;
    }
    if is_empty(&db)? {
        open_accounts(&db)?;
    }
    if args.show {
        return show(&db);
    }
    say("open");
    std::thread::scope(|scope| {
        let db = &db;
        for payer in 0..PAYERS {
            let seed = args.seed.wrapping_mul(100).wrapping_add(payer as u64);
            scope.spawn(move || pay(db, payer, seed));
        }
        scope.spawn(move || rearrange(db, args.seed));
    });
    Ok(())
}

/// The id of an account, its balance, and the transfers that it has paid for.
fn schema() -> Result<Schema, Failure> {
    let columns = ["id", "balance", "paid"].map(|name| Column::new(name, ColumnType::Int64));
    Schema::new("accounts", columns.to_vec(), &["id"]).map_err(Failure::failed)
}

/// True if the first account is missing, and therefore all of them.
fn is_empty(db: &Database) -> Result<bool, Failure> {
    let design = db.design();
    let Some((range, placement)) = design.partition_of(TABLE, &Key::int(0)) else {
        return Err(Failure::failed("there is no table of accounts"));
    };
    let mut rows = 0;
    db.read_at(placement.master, &db.session(), TABLE, &range, |_, _| rows += 1)?;
    Ok(rows == 0)
}

/// Creates the accounts in one transaction.
fn open_accounts(db: &Database) -> Result<(), Failure> {
    let schema = schema()?;
    let footprint = Footprint::new().write_range(TABLE, KeyRange::all());
    db.run(&mut db.session(), &footprint, |txn| {
        for id in 0..ACCOUNTS {
            let row = schema.encode_row(&[id, BALANCE, 0].map(Value::Int64));
            let (key, row) = row.map_err(|error| Abort::because(error.to_string()))?;
            txn.insert(TABLE, &key, &row)?;
        }
        Ok(())
    })?;
    Ok(())
}

/// Makes transfers from the accounts of one payer to any other account.
fn pay(db: &Database, payer: i64, seed: u64) {
    let (mut rng, mut session) = (random(seed), db.session());
    loop {
        let from = rng.random_range(0..ACCOUNTS / PAYERS) * PAYERS + payer;
        let to = (from + rng.random_range(1..ACCOUNTS)) % ACCOUNTS;
        let cents = rng.random_range(1..10);
        match transfer(db, &mut session, from, to, cents) {
            Ok(number) => say(&format!("commit {from} {number}")),
            Err(error) => say(&format!("error {error}")),
        }
    }
}

/// Moves money; returns the number of the payer's transfer.
fn transfer(
    db: &Database,
    session: &mut Session,
    from: i64,
    to: i64,
    cents: i64,
) -> Result<i64, Error> {
    let (from, to) = (Key::int(from), Key::int(to));
    let footprint = Footprint::new().write(TABLE, from.clone()).write(TABLE, to.clone());
    let mut number = 0;
    db.run(session, &footprint, |txn| {
        number = add(txn, &from, -cents, 1)?;
        add(txn, &to, cents, 0)?;
        Ok(())
    })?;
    Ok(number)
}

/// Adds to the balance and to the count of an account; returns the new count.
fn add(txn: &mut Txn<'_>, key: &Key, cents: i64, paid: i64) -> Result<i64, Abort> {
    let mut number = 0;
    let found = txn.update(TABLE, key, |row| {
        for (at, more) in [cents, paid].into_iter().enumerate() {
            let bytes = &mut row[at * 8..at * 8 + 8];
            number = i64::from_le_bytes(bytes.try_into().expect("eight bytes")) + more;
            bytes.copy_from_slice(&number.to_le_bytes());
        }
    })?;
    if found { Ok(number) } else { Err(Abort::because(format!("account {key} is missing"))) }
}

/// The strategy `on-demand` that reports each change before it makes it.
#[derive(Default)]
struct Telling(OnDemand);

impl Strategy for Telling {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn decide(&self, request: &Request<'_>) -> Result<Verdict, Refused> {
        let verdict = self.0.decide(request)?;
        if let Verdict::Run(decision) = &verdict {
            let design = (request.design)();
            decision.first.changes().for_each(|c| say(&format!("begin {}", c.to_text(&design))));
        }
        Ok(verdict)
    }

    fn observe(&self, report: &Report<'_>) {
        self.0.observe(report);
    }

    fn memory(&self, design: &Design) -> Option<String> {
        self.0.memory(design)
    }

    fn recall(&self, memory: &str) -> Result<(), String> {
        self.0.recall(memory)
    }
}

/// Makes random changes, and a checkpoint after every [`CHANGES_PER_CHECKPOINT`] of them.
fn rearrange(db: &Database, seed: u64) {
    let mut rng = random(seed ^ 0x5eed);
    let mut changes = 0;
    loop {
        let design = db.design();
        let change = random_change(&design, &mut rng);
        if design.validate(&change).is_err() {
            continue;
        }
        let text = change.to_text(&design);
        say(&format!("begin {text}"));
        match db.change(change, "a test") {
            Ok(_) => {}
            // The strategy may have changed the design for a payer meanwhile.
            Err(Error::Invalid(_)) => say(&format!("refused {text}")),
            Err(error) => say(&format!("error {error}")),
        }
        changes += 1;
        if changes % CHANGES_PER_CHECKPOINT == 0
            && let Err(error) = db.checkpoint()
        {
            say(&format!("error {error}"));
        }
    }
}

fn random_change(design: &Design, rng: &mut Random) -> Change {
    let table = TABLE;
    let at = Key::int(rng.random_range(1..ACCOUNTS));
    let found = design.partition_of(table, &at);
    let start = found.map(|(range, _)| range.start).unwrap_or_default();
    let site = SiteId(rng.random_range(1..=SITES));
    match rng.random_range(0..5) {
        0 => Change::Split { table, at },
        1 => Change::Merge { table, at: start },
        2 => Change::AddReplica { table, start, site },
        3 => Change::RemoveReplica { table, start, site },
        _ => Change::Remaster { table, start, to: site },
    }
}

/// Prints every account and the design, if all copies agree and the design is valid.
fn show(db: &Database) -> Result<(), Failure> {
    let (design, session, schema) = (db.design(), db.session(), schema()?);
    design.check().map_err(Failure::failed)?;
    if let Some(difference) = inspect(db, &session)?.differences.first() {
        return Err(Failure::failed(difference));
    }
    for (range, placement) in design.partitions_in(TABLE, &KeyRange::all()) {
        db.read_at(placement.master, &session, TABLE, &range, |key, row| {
            let values = schema.decode_row(key, row).unwrap_or_default();
            let values: Vec<String> = values.iter().map(|v| ColumnType::Int64.format(v)).collect();
            out::line(values.join(" "));
        })?;
    }
    out::print(format_args!("design\n{}", design.to_text()));
    Ok(())
}

/// Prints a line and flushes it, so that the test can rely on it.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // The test has closed the pipe.
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
