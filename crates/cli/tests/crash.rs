//! `kill -9`, repeatedly: acknowledged transfers survive, no transfer is partial, and a change of
//! the design in flight has either taken effect or not.
//!
//! ```text
//!   for each round    start `isomer crash-child FOLDER`, read its reports
//!                     kill it at a random moment
//!                     open the folder again, and compare
//! ```
//!
//! The child moves money between accounts from several threads while the design changes, and
//! reports acknowledgements. Each account has one payer and counts the payer's transfers. So at
//! most one transfer of a payer can be under way. See `src/crash_child.rs`.

use isomer_design::{Change, Design};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// The number of rounds. More follow, up to `ROUNDS_MAX`, until more than `ENOUGH` commits and
/// changes are acknowledged.
const ROUNDS: u64 = 15;
const ROUNDS_MAX: u64 = 300;
const ENOUGH: usize = 20;
const ACCOUNTS: usize = 48;
const MONEY: i64 = 48_000;
const PAYERS: i64 = 3;
const LINES_TOLD: usize = 40;

/// The content of the folder after a restart.
struct Found {
    /// Balance and number of transfers, by account.
    accounts: BTreeMap<i64, (i64, i64)>,
    design: Design,
}

#[test]
fn a_killed_process_leaves_all_that_was_acknowledged_and_nothing_partial() {
    let folder = empty_folder("crash");
    let (mut chance, mut commits, mut changes) = (0x1505_u64, 0, 0);
    let mut before = None;
    for round in 1.. {
        if round > ROUNDS && commits > ENOUGH && changes > ENOUGH {
            break;
        }
        assert!(round <= ROUNDS_MAX, "{commits} commits and {changes} changes: worth little");
        chance = chance.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let after = Duration::from_millis(10 + (chance >> 33) % 290);
        // Some rounds kill the child while it creates or recovers the database, most while it
        // works.
        let from = if round % 5 == 1 { From::Start } else { From::Open };
        let lines = run_and_kill(&folder, round, from, after);
        let found = reopen(&folder, round);
        let said = Said::of(&lines, round);
        commits += said.check_commits(before.as_ref(), &found, round);
        changes += said.check_design(before.as_ref(), &found, round);
        before = Some(found);
    }
}

/// The event from which a child has its time to live.
enum From {
    Start,
    Open,
}

/// The reports of a child before it was killed.
#[derive(Default)]
struct Said {
    /// The number of the last acknowledged transfer, by account.
    commits: BTreeMap<i64, i64>,
    acknowledged: usize,
    done: Vec<String>,
    /// Changes that began, and whose end is unknown, with a count: two threads may ask for the same
    /// change.
    under_way: BTreeMap<String, usize>,
    /// The last reports about changes, for the message of a failed assertion.
    last: Vec<String>,
}

impl Said {
    fn of(lines: &[String], round: u64) -> Said {
        let mut said = Said::default();
        for line in lines {
            match line.split_once(' ') {
                Some(("commit", rest)) => {
                    let (account, number) = rest.split_once(' ').expect("an account and a number");
                    let number: i64 = number.parse().expect("a number");
                    let last =
                        said.commits.entry(account.parse().expect("an account")).or_default();
                    *last = number.max(*last);
                    said.acknowledged += 1;
                }
                Some(("begin", change)) => {
                    *said.under_way.entry(change.to_owned()).or_default() += 1;
                }
                Some(("done", change)) => {
                    said.ended(change);
                    said.done.push(change.to_owned());
                }
                Some(("refused", change)) => said.ended(change),
                None if line == "open" => {}
                _ => panic!("round {round}: the child said `{line}`"),
            }
        }
        let changes = lines.iter().rev().filter(|line| !line.starts_with("commit"));
        said.last = changes.take(LINES_TOLD).cloned().collect();
        said
    }

    fn ended(&mut self, change: &str) {
        if let Some(times) = self.under_way.get_mut(change) {
            *times -= 1;
            if *times == 0 {
                self.under_way.remove(change);
            }
        }
    }

    fn check_commits(&self, before: Option<&Found>, found: &Found, round: u64) -> usize {
        assert_eq!(found.accounts.len(), ACCOUNTS, "round {round}: every account is there once");
        let money: i64 = found.accounts.values().map(|(balance, _)| balance).sum();
        assert_eq!(money, MONEY, "round {round}: no transfer is partial");
        let mut beyond = [0; PAYERS as usize];
        for (account, (_, paid)) in &found.accounts {
            let acknowledged = self.commits.get(account).copied();
            let earlier = before.map_or(0, |before| before.accounts[account].1);
            let known = acknowledged.unwrap_or(earlier);
            assert!(*paid >= known, "round {round}: account {account} lost transfer {known}");
            beyond[(account % PAYERS) as usize] += paid - known;
        }
        let one_each = beyond.iter().all(|transfers| *transfers <= 1);
        assert!(one_each, "round {round}: unknown transfers: {beyond:?} by payer");
        self.acknowledged
    }

    fn check_design(&self, before: Option<&Found>, found: &Found, round: u64) -> usize {
        let Some(before) = before else { return 0 };
        let mut design = before.design.clone();
        for text in &self.done {
            let change = Change::parse(text, &design).expect("the child writes changes");
            design.apply(&change).unwrap_or_else(|e| panic!("round {round}: {text}: {e}"));
        }
        for change in design.diff(&found.design).expect("of the same tables") {
            let text = change.to_text(&design);
            let is_known = self.under_way.contains_key(&text);
            let (under_way, last) = (&self.under_way, self.last.join("\n  "));
            assert!(
                is_known,
                "round {round}: {text} happened; under way were {under_way:?}; last, from the \
                 newest:\n  {last}"
            );
        }
        self.done.len()
    }
}

/// Starts a child and kills it `after` a while; returns the lines that it wrote completely.
#[allow(clippy::disallowed_methods, reason = "the test kills a process at a moment of real time")]
fn run_and_kill(folder: &Path, seed: u64, from: From, after: Duration) -> Vec<String> {
    let mut child = command(folder)
        .args(["--seed", &seed.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut out = BufReader::new(child.stdout.take().expect("it is a pipe"));
    let (opened, is_open) = channel();
    let reader = std::thread::spawn(move || {
        let mut lines = Vec::new();
        let mut line = String::new();
        while out.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            if line.ends_with('\n') {
                lines.push(line.trim_end().to_owned());
            }
            if line == "open\n" {
                // In some rounds there is no receiver.
                let _ = opened.send(());
            }
            line.clear();
        }
        lines
    });
    if matches!(from, From::Open) {
        is_open.recv().expect("the child opens the database");
    }
    std::thread::sleep(after);
    child.kill().expect("it runs until it is killed");
    child.wait().expect("it was killed");
    reader.join().expect("the reader does not panic")
}

/// Opens the folder again. The child itself checks that copies agree.
fn reopen(folder: &Path, round: u64) -> Found {
    let output = command(folder).arg("--show").output().expect("the program starts");
    let text = String::from_utf8(output.stdout).expect("it writes text");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "round {round}: {}\n{errors}", folder.display());
    let (lines, design) = text.split_once("design\n").expect("accounts, then the design");
    let mut accounts = BTreeMap::new();
    for line in lines.lines() {
        let numbers = line.split(' ').map(|number| number.parse::<i64>().expect("a number"));
        let numbers: Vec<i64> = numbers.collect();
        let twice = accounts.insert(numbers[0], (numbers[1], numbers[2]));
        assert!(twice.is_none(), "round {round}: two of `{line}`");
    }
    let design = Design::parse(design).expect("the design is valid");
    Found { accounts, design }
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isomer"));
    command.arg("crash-child").arg(folder);
    command
}

fn empty_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}
