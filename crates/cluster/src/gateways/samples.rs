//! Samples: transactions of other gateways, for the strategy at the conductor.
//!
//! A strategy learns from a part of all transactions. It chooses them by their
//! [tickets](isomer_strategy::Strategy::wants), which are random numbers, and may choose fewer when
//! there are many.
//!
//! ```text
//!   conductor   asks its strategy of 1024 tickets: it wants 16 of them
//!     │ 16 of 1024, with the news
//!     ▼
//!   gateway     measures every 64th transaction, and sends its footprint and times with the next poll
//!     │
//!     ▼
//!   conductor   gives each a wanted ticket, and reports it to the strategy
//! ```
//!
//! So the transactions of all gateways have the same weight.

use super::link::Link;
use super::messages::Sample;
use isomer_design::Design;
use isomer_strategy::{Measured, Refused, Report, Request, Strategy, TwoPhase, Verdict};
use std::sync::Arc;

/// The number of tickets in a question to a strategy.
const TICKETS: u64 = 1024;
/// The lowest bits of a ticket are for other decisions.
const SHIFT: u32 = 8;

/// The tickets of a series that a strategy wants.
pub(super) fn wanted(strategy: &dyn Strategy) -> Vec<u64> {
    (0..TICKETS).map(|at| at << SHIFT).filter(|ticket| strategy.wants(*ticket)).collect()
}

/// The strategy of a gateway whose conductor is in another process. It changes nothing, runs
/// transactions where their rows are, and sends samples.
pub(crate) struct OfGateway {
    link: Arc<Link>,
    places: TwoPhase,
}

impl OfGateway {
    pub(crate) fn new(link: Arc<Link>) -> OfGateway {
        OfGateway { link, places: TwoPhase }
    }
}

impl Strategy for OfGateway {
    fn name(&self) -> &'static str {
        "of-gateway"
    }

    fn decide(&self, request: &Request<'_>) -> Result<Verdict, Refused> {
        self.places.decide(request)
    }

    fn wants(&self, ticket: u64) -> bool {
        (ticket >> SHIFT) % TICKETS < self.link.wanted()
    }

    fn observe(&self, report: &Report<'_>) {
        let Some(measured) = report.measured else { return };
        let Measured { service_ns, lock_ns, wait_ns, run_ns, commit_ns, held_ns, rows } = measured;
        let ns = [service_ns, lock_ns, wait_ns, run_ns, commit_ns, held_ns];
        self.link.sample(|| Sample { footprint: report.footprint.clone(), ns, rows });
    }

    fn memory(&self, _: &Design) -> Option<String> {
        None
    }

    fn recall(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
}

/// The times of a sample.
pub(super) fn measured(sample: &Sample) -> Measured {
    let [service_ns, lock_ns, wait_ns, run_ns, commit_ns, held_ns] = sample.ns;
    let rows = sample.rows;
    Measured { service_ns, lock_ns, wait_ns, run_ns, commit_ns, held_ns, rows }
}
