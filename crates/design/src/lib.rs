//! The physical design of a database, as values.
//!
//! A design consists of partitions, the site of the master of each, and the sites of its replicas.
//! It changes on line, by small steps that can be named, checked, printed, stored and undone. This
//! crate defines designs and changes, and which of them are valid. It makes no decisions and
//! carries nothing out: planners return [`Plan`]s, and sites carry out [`Change`]s.
//!
//! ```text
//!              rows                     placement                       transactions
//!   ┌────────────────────────┐  ┌──────────────────────────┐  ┌──────────────────────────┐
//!   │ Value ─ Schema ─ bytes │  │ SiteSet ─ Placement      │  │ Footprint                │
//!   │            │           │  │              │           │  │     │                    │
//!   │           Key ─────────┼──┼─ KeyRange ─ RangeMap ────┼──┼─ RoutingTable ─ Route    │
//!   └────────────────────────┘  │              │           │  └──────────────────────────┘
//!                               │           Design         │
//!                               │  Change ─ Plan ─ diff    │
//!                               └──────────────────────────┘
//! ```
//!
//! A walk through Figure 2 of the MorphoSys paper, with the text form that all of it has:
//!
//! ```
//! use isomer_design::{Change, Design, Footprint, Route, RoutingTable, SiteSet, SiteId};
//!
//! let mut design = Design::parse("
//!     sites s1 s2
//!     table accounts
//!       column id int64
//!       key id
//!       partition []   master s1
//!       partition [10] master s2
//! ")?;
//! for line in ["split accounts at 5", "add_replica accounts[5] s2", "remaster accounts[5] s2"] {
//!     let change = Change::parse(line, &design)?;
//!     design.apply(&change)?;
//! }
//!
//! let transfer = Footprint::parse("write accounts[7], write accounts[12]", &design)?;
//! let home = RoutingTable::of(&design).home(&transfer);
//! assert_eq!(home, Route::Sites(SiteSet::of(SiteId(2))));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Left out.** Input and output, time, threads and randomness. All functions depend on their
//! arguments only, so a planner can try a thousand designs, and a simulation repeats.

mod added;
mod backups;
mod change;
mod column;
mod design;
mod diff;
mod domains;
mod footprint;
mod hot_lock;
mod ids;
mod invalid;
mod key;
mod key_code;
mod layout;
mod numeric_code;
mod pins;
mod placement;
mod plan;
mod range;
mod range_map;
mod routing;
mod row;
mod row_error;
mod schema;
mod shared_map;
mod site_set;
mod text;
mod timestamp;
mod value;
mod wire;

pub use backups::Backups;
pub use change::Change;
pub use column::Column;
pub use design::{Design, TableDesign};
pub use domains::Domains;
pub use footprint::{Access, Footprint, Item, Span};
pub use hot_lock::HotLock;
pub use ids::{SiteId, TableId, Time, Version};
pub use invalid::Invalid;
pub use key::{KEY_BYTES_MAX, Key, put_int, take_int};
pub use pins::Pins;
pub use placement::Placement;
pub use plan::{InvalidStep, Plan, Step};
pub use range::{Direction, KeyRange};
pub use range_map::{CHUNK_ENTRIES_MAX, RangeMap, RangeMapIter};
pub use routing::{Missing, Route, RoutingTable};
pub use row::ROW_BYTES_MAX;
pub use row_error::RowError;
pub use schema::{COLUMNS_MAX, NAME_BYTES_MAX, Schema, SchemaError};
pub use shared_map::SharedMap;
pub use site_set::{SITES_MAX, SiteSet};
pub use text::{ParseError, Problem};
pub use value::{ColumnType, DECIMAL_NAN, DECIMAL_SCALE_MAX, Value};
