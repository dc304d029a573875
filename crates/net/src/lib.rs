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
//! **Two connections between two processes.** Every process dials every other. Its requests and
//! messages go over the connection that it dialled, and answers come back by it. So processes need
//! not agree on which one dials, and a lost connection is redialled by the process that needs it.
//! Each process needs an address that all others reach. A connection is a *line* in the code. A
//! *peer* is a process at the end of an outbound line, a *guest* one at the end of an inbound line.
//!
//! **The protocol** consists of the messages of [`isomer_site::wire`], one after the other with
//! their own heads. A request has a number, and its answers have the same. The carrier's own kinds:
//!
//! ```text
//!    96  hello     the dialling process: cluster, name, run, sites     first; answered by 97 or 98
//!    97  welcome   the same of the dialled process
//!    98  refused   the reason; the connection ends
//!    99  ping      no body: the sender is alive
//!   100  status?   instead of a hello; answered by 101
//!   101  status    of the dialled process, and which others it reaches
//!   102  introduction    instead of a hello: the name of a process that sends envelopes
//!   103  envelope    of a service
//!   104  logs?     instead of a hello; answered by 105
//!   105  logs      the state of the logs that the processes keep for each other
//!   106  run?      instead of a hello; answered by 107
//!   107  run       the number of the dialled process's run
//!   108  restart   instead of a hello: it is to restart; the longest wait; answered by 107
//!   109  leaves    instead of a hello: the name and the run of a process that has closed its
//!                  database, and whose place others need not hold; answered by 107
//!   110  joins    instead of a hello: a process that wants to join the cluster; answered by 111
//!   111  joined   the process with its sites, and the text of the cluster's file
//! ```
//!
//! **Loss.** A connection that ends loses the bytes in flight. Messages may be lost. A request that
//! was sent and has no answer is [lost](isomer_cluster::Unanswered::Lost): its outcome is unknown
//! to the sender. The receiver cancels the requests of a connection that has ended. Until they have
//! ended, it refuses other processes of the same name. So a request of a router that was killed
//! takes no effect after the next router has read the state of the sites.
//!
//! **Memory is bounded.** Bytes that wait for a slow peer are counted. Beyond the limit messages
//! are dropped, requests refused, and a connection whose answers are not read is ended. Requests
//! wait for each other, so each runs in its own thread of a pool; beyond the pool's limit they are
//! refused.
//!
//! **Silence.** A connection without input for [`Options::silence`] is ended. Idle processes send
//! pings.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`frames`] | messages from a stream of bytes: a pure function |
//! | [`hello`] | the handshake, and reasons to refuse it |
//! | [`line`] | one connection: its queue, its thread, its timeout |
//! | [`peer`] | outbound: pending requests, back-off, and tasks that wait for the process |
//! | [`guest`] | inbound: requests in progress, until all have ended |
//! | [`pool`] | threads for requests |
//! | [`tls`] | authentication by certificates |
//! | [`envelopes`] | messages of a service that runs before the database and after it |
//! | [`others`] | the other processes, also those that join later |
//! | [`net`] | all connections of a process: [`Net`] |
//!
//! **Without certificates** any process that can connect has full access, so the embedder must
//! allow addresses other than loopback.
//!
//! **Left out.** A large message (the copy of a partition) delays later messages of its connection.

mod edge;
mod envelopes;
mod frames;
mod guest;
mod hello;
mod line;
mod net;
mod others;
mod peer;
mod pool;
mod status;
mod tls;

pub use envelopes::{LogStatus, LogsStatus, Service};
pub use hello::{Member, Role};
pub use net::{Net, Options, PeerState, StartError};
pub use status::{Status, ask_logs, ask_restart, ask_run, ask_status, ask_to_join};
pub use tls::NodeTls;
