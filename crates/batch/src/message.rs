//! What sites say to each other.
//!
//! ```text
//!   source                         executor
//!     │ ── Push{3.0, rows} ──────▶ │     as soon as it has its locks; also if there are no rows
//!     │ ◀──────────── Ask{3.0} ─── │     nothing came for a while
//!     │ ── Push{3.0, rows} ──────▶ │     again, if it has been sent before
//!     │ ◀────── Done{below: 4} ─── │     a checkpoint has all before batch 4: pushes may be forgotten
//! ```
//!
//! Messages may be lost, repeated, late, and out of order. A push is kept by its source until its executor
//! says `Done`, so an executor that crashes can be run again from its checkpoint: it asks for what it was
//! sent. A source that crashes runs its steps again and comes to the same pushes.

use crate::plan::StepId;
use crate::rows::{RecordId, Row};
use std::fmt;
use std::sync::Arc;

/// What sites say to each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// All that the sender holds of what a step reads.
    Push {
        /// The step.
        step: StepId,
        /// The rows there are.
        rows: Arc<Vec<(RecordId, Row)>>,
    },
    /// Where is your push?
    Ask {
        /// For this step.
        step: StepId,
    },
    /// The sender needs no pushes of these batches any more, even after a crash.
    Done {
        /// The first batch that it may need.
        below: u64,
    },
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Push { step, rows } => {
                write!(f, "push {step}")?;
                rows.iter().try_for_each(|((table, key), _)| write!(f, " {table}[{key}]"))
            }
            Message::Ask { step } => write!(f, "ask {step}"),
            Message::Done { below } => write!(f, "done below {below}"),
        }
    }
}
