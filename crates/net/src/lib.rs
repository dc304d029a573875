//! Sites in several processes: the [`Wire`](isomer_cluster::Wire) of a cluster, over TCP.
//!
//! ```text
//!   process a: router, sites 1 2                     process b: a node, sites 3 4
//!   ┌─────────────────────────────┐                  ┌──────────────────────────────┐
//!   │ Database ─ ask, send ─▶ dial ═══ a's line ════▶ listen ─▶ pool ─▶ Endpoint    │
//!   │                ◀── answers ─────────────────────────┘                         │
//!   │ Endpoint ◀─ pool ◀─ listen ◀═══ b's line ═══════ dial ◀─ ask, send ─ sites    │
//!   └─────────────────────────────┘                  └──────────────────────────────┘
//! ```
//!
//! **One line for each direction.** Every process dials every other, and what it asks and says goes over the line that
//! it dialled; answers come back by it. So no two processes have to agree on who dials, and a line that is lost is
//! dialled again by the one who needs it. Each process needs an address that all others reach.
//!
//! **What goes over a line** are the messages of [`isomer_site::wire`], one behind the other, by their own heads: a
//! request has a number, and whatever answers it has the same. The carrier's own kinds:
//!
//! ```text
//!   96  hello     who dials: cluster, name, run, sites        first of all; answered by 97 or 98
//!   97  welcome   the same of who was dialled
//!   98  refused   why; the line ends
//!   99  ping      nothing: somebody is there
//!  100  status?   in place of a hello; answered by 101
//!  101  status    who is dialled, and whom it reaches
//! ```
//!
//! **Loss.** A line that ends loses what was on its way. Messages may be lost. A request that was sent and has no
//! answer is [lost](isomer_cluster::Unanswered::Lost): who asked knows nothing of it. At the other end, the requests
//! of a line that has ended are ended too, and until they are, nobody is let in by the same name: what a router asked
//! before it was killed does not happen after the next one has looked.
//!
//! **Nothing grows without bound.** Bytes that wait for a slow peer are counted: beyond the limit messages are dropped,
//! requests refused, and a line whose answers nobody reads is ended. Requests that are carried out have each a thread
//! of a pool, since they wait for each other; beyond its limit they are refused.
//!
//! **Silence.** A line on which nothing comes for [`Options::silence`] has ended: who is there pings.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`frames`] | messages from a stream of bytes; a function of these |
//! | [`hello`] | who talks to whom, and who is refused |
//! | [`line`] | one connection: its queue, its thread, its silence |
//! | [`peer`] | one other process as it is dialled: requests under way, back-off, who waits for it |
//! | [`guest`] | one that has dialled this process: its requests, until all have ended |
//! | [`pool`] | threads for requests |
//! | [`tls`] | who is at the other end, by certificates |
//! | [`net`] | all of it: [`Net`] |
//!
//! **Without certificates** whoever can connect can do anything, so addresses other than loopback are the embedder's to
//! allow.
//!
//! **Left out.** A large message (the copy of a partition) holds up what is behind it on its line.

mod edge;
mod frames;
mod guest;
mod hello;
mod line;
mod net;
mod peer;
mod pool;
mod status;
mod tls;

pub use hello::{Member, Role};
pub use net::{Net, Options, PeerState, StartError};
pub use status::{Status, ask_status};
pub use tls::NodeTls;
