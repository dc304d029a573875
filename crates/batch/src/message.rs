//! Messages between sites.
//!
//! ```text
//!   source                         executor
//!     │ ── Push{3.0, rows} ──────▶ │     once the source has its locks; sent even without rows
//!     │ ◀──────────── Ask{3.0} ─── │     no push for `ASK_AFTER_NS`
//!     │ ── Push{3.0, rows} ──────▶ │     again, if it was sent before
//!     │ ◀────── Done{below: 4} ─── │     batches before 4 are in a checkpoint: drop their pushes
//! ```
//!
//! Messages may be lost, repeated, delayed and reordered. A source keeps each push until the
//! executor sends `Done`. A crashed executor can therefore run again from its checkpoint and ask
//! for the pushes it lost. A crashed source runs its steps again and produces the same pushes.

use crate::plan::StepId;
use crate::rows::{RecordId, Row};
use std::fmt;
use std::sync::Arc;

/// A message between two sites.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// All rows that the sender holds of the footprint of a step.
    Push {
        /// The step.
        step: StepId,
        /// The existing rows.
        rows: Arc<Vec<(RecordId, Row)>>,
    },
    /// Asks for a push that has not arrived.
    Ask {
        /// The step that waits for it.
        step: StepId,
    },
    /// The sender no longer needs the pushes of earlier batches, even after a crash.
    Done {
        /// The first batch whose pushes it may still need.
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
