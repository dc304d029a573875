//! Strategies that plan while transactions run.
//!
//! They implement [`isomer_strategy::Strategy`], whose head describes the router's calls and what
//! it does with the answers.
//!
//! | strategy | changes | when no site can run a transaction |
//! | --- | --- | --- |
//! | [`Learned`] | those that pay off (MorphoSys, section 5), deferred | runs it over several |
//! | [`Morphosys`] | as printed: necessary ones, and others that pay off | enables one site |
//! | [`Elastic`] | what overloads a site: by Clay, E-Store or DrTM+B | runs it over several |
//! | [`PeriodicClay`] | what Clay moves every ten seconds | runs it over several |
//! | [`Adr`] | replicas, where reads come from | runs it over several |
//! | [`Replicated`] | masters, or none | as another strategy says; reads go to any copy |

mod adr;
mod elastic;
mod learned;
mod morphosys;
mod periodic_clay;
mod replicated;

pub use adr::Adr;
pub use elastic::Elastic;
pub use learned::Learned;
pub use morphosys::Morphosys;
pub use periodic_clay::PeriodicClay;
pub use replicated::Replicated;
