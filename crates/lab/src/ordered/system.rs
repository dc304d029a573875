//! The compared systems: each is a router on the same engine, so that nothing else differs.
//!
//! | system | description |
//! | --- | --- |
//! | hermes | Algorithm 1 and the fusion table |
//! | hermes-no-reorder, -no-balance | without the reordering of step 1, without step 3 |
//! | hermes-no-fusion | written records move home after each batch |
//! | hermes-no-cold | only hot records move to an added site |
//! | calvin | every site that holds a written record runs the transaction |
//! | gstore | all records move to the transaction, and home afterwards |
//! | leap | all records move to the transaction, and stay |
//! | tpart | weighs load against remote reads; written records move home after the batch |
//! | squall | calvin; all records of the range move to an added site in chunks |
//!
//! Written records under tpart first move on to later transactions of the batch. Without squall,
//! calvin moves no records to an added site.

use isomer_plan::route::engine::EngineRouter;
use isomer_plan::route::{Alpha, Options};
use isomer_strategy::batch::{Assignment, Back, Movement, Places, Route};
use std::sync::Arc;

/// A system. See the [module documentation](self).
#[derive(Clone, Copy)]
pub struct System {
    /// Its name.
    pub name: &'static str,
    route: fn() -> Arc<dyn Route>,
    /// True if its router considers the whole batch and every site.
    pub(super) looks_ahead: bool,
    /// True if records that are not fused move to an added site in chunks.
    pub(super) cold: bool,
}

/// T-Part's weight of remote reads in units of 1/10000, as in the published experiments.
const BETA: u32 = 8000;

/// All systems.
pub const SYSTEMS: [System; 10] = [
    system("hermes", || Arc::new(EngineRouter::Hermes(Options::default()))),
    system("hermes-no-reorder", || {
        Arc::new(EngineRouter::Hermes(Options { reorder: false, ..Options::default() }))
    }),
    system("hermes-no-balance", || {
        Arc::new(EngineRouter::Hermes(Options { alpha: anything(), ..Options::default() }))
    }),
    system("hermes-no-fusion", || {
        Arc::new(HomeAfterBatch(EngineRouter::Hermes(Options::default())))
    }),
    System {
        cold: false,
        ..system("hermes-no-cold", || Arc::new(EngineRouter::Hermes(Options::default())))
    },
    System { cold: false, ..one_by_one("calvin", || Arc::new(EngineRouter::Calvin)) },
    one_by_one("gstore", || Arc::new(EngineRouter::GStore)),
    one_by_one("leap", || Arc::new(EngineRouter::Leap)),
    system("tpart", || Arc::new(EngineRouter::TPart { beta: BETA })),
    one_by_one("squall", || Arc::new(EngineRouter::Calvin)),
];

const fn system(name: &'static str, route: fn() -> Arc<dyn Route>) -> System {
    System { name, route, looks_ahead: true, cold: true }
}

/// A system whose router places transactions one by one.
const fn one_by_one(name: &'static str, route: fn() -> Arc<dyn Route>) -> System {
    System { looks_ahead: false, ..system(name, route) }
}

/// A tolerance that every imbalance satisfies.
fn anything() -> Alpha {
    "1000000".parse().expect("a number")
}

/// A router whose records move home after each batch.
struct HomeAfterBatch(EngineRouter);

impl Route for HomeAfterBatch {
    fn movement(&self) -> Movement {
        Movement { back: Back::AfterBatch, ..self.0.movement() }
    }

    fn route(&self, batch: &[&isomer_design::Footprint], places: &Places<'_>) -> Vec<Assignment> {
        self.0.route(batch, places)
    }
}

impl System {
    /// Returns the system with a name.
    ///
    /// # Errors
    /// A message that lists the known systems.
    pub fn named(name: &str) -> Result<System, String> {
        let found = SYSTEMS.iter().find(|system| system.name == name);
        found.copied().ok_or_else(|| {
            let known = SYSTEMS.map(|system| system.name).join(", ");
            format!("there is no system `{name}` of transactions in order; there are: {known}")
        })
    }

    pub(super) fn route(&self) -> Arc<dyn Route> {
        (self.route)()
    }
}
