//! The baselines of Clay's comparison, as its section 8 and their own papers describe them.
//!
//! | planner | looks at | starts from | moves |
//! | --- | --- | --- | --- |
//! | [`estore`] | accesses of single keys | the current placement | hot keys, then cold chunks |
//! | [`metis`] | co-accesses | nothing | almost everything |
//! | [`schism`] | co-accesses | nothing | almost everything, as ranges |
//! | [`drtmb`] | accesses of partitions, replicas | the current placement | to where a backup is |
//! | [`optimum`] | everything | the current placement | the provable minimum; tiny inputs only |

pub mod drtmb;
pub mod estore;
pub mod metis;
pub mod optimum;
pub mod schism;
