//! The histories of a running server: what begins them, and what keeps them up to date.
//!
//! ```text
//!   keep_histories ──▶ chronicle, remembered ◀── files of the data folder
//!   note_events, all the time ──▶ new events, changed rows ──▶ files, and the other gateways
//! ```

use crate::cells::Cell;
use crate::chronicle::Noted;
use crate::engine::{Engine, Told, mention};
use crate::pilot::Decider;
use crate::proposals::proposal_rows;
use crate::reconfigure::note_plans;
use crate::remembered::View;
use isomer_sql::datum::Datum;
use std::io;
use std::path::Path;

/// Keeps the histories in a folder from now on, and reads those that are there.
///
/// # Errors
/// If a file cannot be read or written.
pub fn keep_histories(engine: &Engine, folder: &Path) -> io::Result<()> {
    for view in View::ALL {
        let last = engine.remembered.open(view, folder)?;
        match (view, engine.autopilot()) {
            (View::Decisions, Decider::Learned(learned)) => learned.number_after(last),
            (View::Decisions, Decider::Elastic(elastic)) => elastic.number_after(last),
            (View::Proposals, _) => engine.steering.proposals.lock().number_after(last),
        }
    }
    engine.chronicle.open(folder)?;
    let last = engine.chronicle.plans().iter().map(|plan| plan.number).max().unwrap_or(0);
    isomer_cluster::number_reconfigurations_from(engine.database(), last + 1);
    Ok(())
}

/// Notes in the histories what has happened since the last call: sites that others have taken over
/// from, or that serve again, and plans that have begun or ended. `noted` has what is noted.
pub fn note_events(engine: &Engine, noted: &mut Noted) {
    let (now, failed) = (engine.database().now(), engine.database().failed_over());
    engine.chronicle.note_failovers(now, &failed, &mut noted.sites);
    note_plans(engine, &mut noted.plans);
    let proposals = engine.steering.proposals.lock();
    let states = proposals.all().map(|it| (it.number, it.state.name())).collect();
    drop(proposals);
    let has_news = std::mem::replace(&mut noted.proposals, states) != noted.proposals;
    if has_news || engine.remembered.is_due(now) {
        keep_decisions(engine);
    }
    let news = engine.chronicle.take_news();
    if !news.is_empty() && !engine.database().is_gateway_only() {
        mention(engine, &Told::Noted(news));
    }
}

/// Writes the decisions and proposals of this start, with those of earlier ones.
pub fn keep_decisions(engine: &Engine) {
    if engine.database().is_gateway_only() {
        // The process with the conductor does.
        return;
    }
    for view in View::ALL {
        let news = engine.remembered.write(view, here(engine, view));
        if !news.is_empty() {
            mention(engine, &Told::Remembered(view, news));
        }
    }
}

/// The rows of a view of this start.
fn here(engine: &Engine, view: View) -> Vec<Vec<Cell>> {
    let rows = match view {
        View::Decisions => engine.decision_rows(),
        View::Proposals => proposal_rows(engine),
    };
    rows.into_iter().map(|row| row.into_iter().map(Cell::of).collect()).collect()
}

/// All rows of a view, those of earlier starts first.
pub(crate) fn rows(engine: &Engine, view: View) -> Vec<Vec<Datum>> {
    let all = engine.remembered.earlier(view).into_iter().chain(here(engine, view));
    all.map(|row| row.into_iter().map(Cell::datum).collect()).collect()
}
