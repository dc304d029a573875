//! Cases: psql scripts whose output is compared literally with PostgreSQL's.
//!
//! `cases/NAME.sql` is a self-contained script. `cases/NAME.out` is the output of PostgreSQL 15,
//! with both streams in order and errors as SQLSTATEs.
//!
//! ```text
//! psql -X -q -v VERBOSITY=sqlstate -f NAME.sql > NAME.out 2>&1
//! ```
//!
//! With `UPDATE_GOLDENFILES=1` the test writes NAME.out from a stock PostgreSQL, which
//! `clients/postgres` starts, so a case never records our own output. Answers that differ from
//! PostgreSQL's on purpose belong into `scripts`. With `ISOMER_CASE=NAME` only this case runs.
//! Without psql, or without the stock PostgreSQL to update from, the test reports that it was
//! skipped.

mod fixture;
#[path = "differential/stock.rs"]
mod stock;

use fixture::{Fixture, options};
use isomer_cluster::Options;
use isomer_server::ServerOptions;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};
use stock::Stock;

/// Microseconds since 1970; each reading of the clock is one microsecond after the last.
fn clock() -> i64 {
    static NOW: AtomicI64 = AtomicI64::new(1_700_000_000_000_000);
    NOW.fetch_add(1, Ordering::Relaxed)
}

/// A file of the folder of cases.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases").join(name)
}

/// The names of the selected cases, in order.
fn names() -> Vec<String> {
    let only = std::env::var("ISOMER_CASE").ok();
    let paths = std::fs::read_dir(file("")).expect("a folder").map(|entry| entry.unwrap().path());
    let scripts = paths.filter(|path| path.extension().is_some_and(|end| end == "sql"));
    let name = |path: PathBuf| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let wanted = |name: &String| only.as_ref().is_none_or(|only| only == name);
    let mut names: Vec<_> = scripts.map(name).filter(wanted).collect();
    names.sort();
    names
}

/// The output of psql for a case, from the server at this port.
fn shown(name: &str, port: u16, user: &str, database: &str) -> String {
    let mut both = tempfile::NamedTempFile::new().expect("a file");
    let stream = |file: &File| Stdio::from(file.try_clone().expect("a descriptor"));
    let mut psql = Command::new("psql");
    psql.args(["-X", "-q", "-v", "VERBOSITY=sqlstate", "-h", "127.0.0.1", "-p"])
        .args([&port.to_string(), "-U", user, "-d", database, "-f", &format!("{name}.sql")])
        .current_dir(file(""))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("LC_ALL", "C.UTF-8")
        .env("PGTZ", "UTC")
        .stdin(Stdio::null())
        .stdout(stream(both.as_file()))
        .stderr(stream(both.as_file()));
    psql.status().expect("psql");
    let mut shown = String::new();
    std::io::Seek::rewind(both.as_file_mut()).expect("a file");
    std::io::Read::read_to_string(both.as_file_mut(), &mut shown).expect("UTF-8");
    shown
}

/// The lines of both texts from the first difference on.
fn difference(expected: &str, given: &str) -> String {
    let same = expected.lines().zip(given.lines()).take_while(|(one, other)| one == other).count();
    let rest = |text: &str| {
        let lines: Vec<_> = text.lines().skip(same).take(12).map(|l| format!("    {l}")).collect();
        lines.join("\n")
    };
    format!("  from line {}, expected:\n{}\n  given:\n{}", same + 1, rest(expected), rest(given))
}

/// Writes all answers again.
fn update() {
    let stock = match Stock::start() {
        Ok(stock) => stock,
        Err(why) => return eprintln!("SKIPPED: {why}"),
    };
    // Waits until the server answers.
    drop(stock.client());
    for name in names() {
        let shown = shown(&name, stock.port, "postgres", "postgres");
        std::fs::write(file(&format!("{name}.out")), shown).expect("a file");
    }
}

#[test]
fn clients_see_what_they_see_of_postgresql() {
    let there = Command::new("psql").arg("--version").stdout(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        return eprintln!("SKIPPED: psql is not installed (Debian: postgresql-client)");
    }
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        return update();
    }
    let mut different = Vec::new();
    for name in names() {
        let options = ServerOptions { clock, ..options() };
        let fixture = Fixture::serve(Options::in_memory(3), options);
        let given = shown(&name, fixture.server.address().port(), "isomer", "test");
        let expected = std::fs::read_to_string(file(&format!("{name}.out"))).expect("an answer");
        if given != expected {
            different.push(format!("{name}:\n{}", difference(&expected, &given)));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
