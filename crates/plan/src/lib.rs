//! What the physical design should be: planners as pure functions over recorded workloads.
pub mod assign;
pub mod baseline;
pub mod clay;
pub mod drift;
pub mod evaluate;
pub mod generate;
pub mod heat;
pub mod problem;
pub mod recording;
pub mod strategy;
pub mod reshard;
pub mod route;
#[cfg(feature = "bench")]
pub mod bench;
