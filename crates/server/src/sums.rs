//! Sums over all gateways: of counts, of the rows of views that are about one process, and their
//! loads.
//!
//! Each gateway answers for itself. A gateway that does not answer within a second is left out.

use crate::cells::Cell;
use crate::copies;
use crate::engine::Engine;
use crate::engine::questions::ToldCopy;
use crate::everywhere::{Inquiry, OfGateway, ask};
use crate::loads::Load;
use crate::scrape;
use isomer_sql::code;
use isomer_sql::datum::Datum;
use isomer_sql::system::Counts;

/// Views about one process.
const VIEWS: [&str; 2] = ["statements", "metrics"];

/// Answers a question of another gateway, unless it is about clients.
pub(crate) fn reply(engine: &Engine, question: &[u8]) -> Option<Vec<u8>> {
    let answer = match serde_json::from_slice(question) {
        Ok(Inquiry::Counts) => OfGateway::Counts(counts_here(engine)),
        Ok(Inquiry::Copies) => OfGateway::Copies(copies::here(engine)),
        Ok(Inquiry::Load) => OfGateway::Load(load(engine)),
        Ok(Inquiry::Rows(view)) if VIEWS.contains(&&*view) => {
            let row = |row: Vec<Datum>| row.into_iter().map(Cell::of).collect();
            OfGateway::Rows(rows_here(engine, &view).into_iter().map(row).collect())
        }
        _ => return None,
    };
    Some(serde_json::to_vec(&answer).expect("names of fields are text"))
}

/// The counts of this process.
fn counts_here(engine: &Engine) -> Counts {
    let deadlocks = engine.statements.failures(code::DEADLOCK);
    Counts { deadlocks, ..engine.tallies.counts() }
}

/// The counts of all processes.
pub(crate) fn counts(engine: &Engine) -> Counts {
    let mut sum = counts_here(engine);
    for (_, reply) in ask(engine.database(), &Inquiry::Counts) {
        if let Some(OfGateway::Counts(theirs)) = reply {
            sum.add(&theirs);
        }
    }
    sum
}

/// The rows of one of [`VIEWS`] about this process.
fn rows_here(engine: &Engine, view: &str) -> Vec<Vec<Datum>> {
    match view {
        "statements" => engine.shapes.rows(),
        _ => scrape::metric_rows(engine),
    }
}

/// The rows of one of [`VIEWS`] of all processes, with the name of each process; it is NULL if
/// there is only this one. Those of this process come first.
pub(crate) fn rows(engine: &Engine, view: &str) -> Vec<(Datum, Vec<Datum>)> {
    let named = |name: String| if name.is_empty() { Datum::Null } else { Datum::Text(name) };
    let own = named(engine.database().others().name());
    let here = rows_here(engine, view).into_iter().map(|row| (own.clone(), row));
    let mut all: Vec<(Datum, Vec<Datum>)> = here.collect();
    for (name, reply) in ask(engine.database(), &Inquiry::Rows(view.to_owned())) {
        let Some(OfGateway::Rows(theirs)) = reply else { continue };
        let name = named(name);
        let row = |row: Vec<Cell>| row.into_iter().map(Cell::datum).collect();
        all.extend(theirs.into_iter().map(|cells| (name.clone(), row(cells))));
    }
    all
}

/// The copies of partitions at the sites of all other processes.
pub(crate) fn copies(engine: &Engine) -> Vec<ToldCopy> {
    let replies = ask(engine.database(), &Inquiry::Copies);
    let copies = |(_, reply)| match reply {
        Some(OfGateway::Copies(copies)) => copies,
        _ => Vec::new(),
    };
    replies.into_iter().flat_map(copies).collect()
}

/// The load of this process.
fn load(engine: &Engine) -> Load {
    let sites = engine.database().sites();
    Load {
        busy: sites.iter().find_map(|site| site.process_busy),
        bytes: sites.iter().map(|site| site.memory_bytes).sum(),
        ..Load::of(&scrape::figures(engine))
    }
}

/// The loads of all processes with their names, this process first. Waits up to a second for those
/// of others.
pub(crate) fn loads(engine: &Engine) -> Vec<(String, Load)> {
    let own = engine.database().others().name();
    let others = ask(engine.database(), &Inquiry::Load).into_iter();
    let others = others.filter_map(|(name, reply)| match reply {
        Some(OfGateway::Load(load)) => Some((name, load)),
        _ => None,
    });
    std::iter::once((own, load(engine))).chain(others).collect()
}
