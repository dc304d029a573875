//! What a decision is made of: the design, what is predicted of it, and what may be changed now.

use super::options::Options;
use super::outlook::Outlook;
use super::recent::Recent;
use isomer_design::Design;

/// See the [module documentation](self).
#[derive(Clone, Copy)]
pub(crate) struct Situation<'a> {
    pub(crate) now_ns: u64,
    pub(crate) design: &'a Design,
    pub(crate) outlook: Outlook<'a>,
    pub(crate) recent: &'a Recent,
    pub(crate) options: &'a Options,
    /// Changes may be asked for, and so many.
    pub(crate) may_add: bool,
    /// A global plan is being carried out, or was a moment ago.
    pub(crate) in_probation: bool,
    /// Masters may be moved for a transaction's sake.
    pub(crate) may_move: bool,
    pub(crate) budget: usize,
}
