//! The systems that are compared: a router on one engine each, so that nothing else differs.
//!
//! | system | what it is |
//! | --- | --- |
//! | hermes | Algorithm 1 and the fusion table |
//! | hermes-no-reorder, -no-balance | without the order of step 1, without step 3 |
//! | hermes-no-fusion | what was written goes home after its batch |
//! | hermes-no-cold | when a site is added, only hot records go there |
//! | calvin | every site that holds what is written runs the transaction |
//! | gstore | all records go to the transaction, and home afterwards |
//! | leap | all records go to the transaction, and stay |
//! | tpart | load and remote reads are weighed; what is written goes on to later transactions of the batch, then home |
//! | squall | calvin; when a site is added, records go there in chunks, hot or not; calvin leaves them where they are |

use isomer_plan::route::engine::EngineRouter;
use isomer_plan::route::{Alpha, Options};
use isomer_strategy::batch::{Assignment, Back, Movement, Places, Route};
use std::sync::Arc;

/// One of the systems. See the [module documentation](self).
#[derive(Clone, Copy)]
pub struct System {
    /// Its name.
    pub name: &'static str,
    route: fn() -> Arc<dyn Route>,
    /// Its router looks at the whole batch and at every site.
    pub(super) looks_ahead: bool,
    /// When a site is added, transactions are routed there, and records that are not fused go there in chunks.
    pub(super) cold: bool,
}

/// T-Part's weight of remote reads, in ten thousandths, as in the published experiments.
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

/// A system whose router looks at one transaction at a time.
const fn one_by_one(name: &'static str, route: fn() -> Arc<dyn Route>) -> System {
    System { looks_ahead: false, ..system(name, route) }
}

/// A tolerance that no imbalance exceeds.
fn anything() -> Alpha {
    "1000000".parse().expect("a number")
}

/// A router whose records go home after each batch.
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
    /// The system of a name.
    ///
    /// # Errors
    /// In words, which systems there are.
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
