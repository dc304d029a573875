//! placeholder
mod error;
mod event;
mod protocol;
mod reservation;
mod router;
mod tasks;
mod transport;

pub use error::{Error, OpenDatabaseError};
pub use event::ChangeEvent;
pub use router::{Ran, Router, Session};
pub use transport::Transport;
