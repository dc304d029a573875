//! Strategies that plan while transactions run.
//!
//! They implement [`isomer_strategy::Strategy`], whose head shows what the router asks and what it does
//! with the answer.
//!
//! | strategy | changes | when no site can run a transaction |
//! | --- | --- | --- |
//! | [`Learned`] | those that pay (MorphoSys, section 5), meanwhile | runs it over several |
//! | [`Morphosys`] | the same as printed: those that it needs, and those that pay besides | makes one site able to |
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
