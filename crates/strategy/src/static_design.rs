//! A strategy that never changes the design.

use crate::{Decision, Refused, Request, Strategy, Verdict, pick};
use isomer_design::Route;

/// Runs transactions that a single site can run, and refuses all others.
#[derive(Clone, Copy, Default, Debug)]
pub struct Static;

impl Strategy for Static {
    fn name(&self) -> &'static str {
        "static"
    }

    fn decide(&self, request: &Request<'_>) -> Result<Verdict, Refused> {
        match &request.route {
            Route::Sites(sites) => Ok(Verdict::Run(Decision::at(pick(sites, request)))),
            Route::UnknownTable(table) => Err(Refused::UnknownTable(*table)),
            Route::Nowhere { .. } => Err(Refused::NotSingleSite {
                footprint: request.footprint.to_string(),
                strategy: self.name(),
            }),
        }
    }

    fn memory(&self, _design: &isomer_design::Design) -> Option<String> {
        None
    }

    fn recall(&self, _memory: &str) -> Result<(), String> {
        Ok(())
    }
}
