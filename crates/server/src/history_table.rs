//! The table of the histories: one row for each event, and for each decision and proposal.
//!
//! ```text
//!   isomer_history    kind        order   apart   text
//!                     'change'    7       0       {"kind":"change","number":7,..}
//!                     'action'    17..    8589..  {"kind":"action","user":"ann",..}
//!                     'proposal'  3       0       [{"Int":3},{"Text":"done"},..]
//! ```
//!
//! [`crate::histories`] says who writes it.

use crate::chronicle::{Chronicle, Event, Kind, Place};
use crate::pilot::Decider;
use crate::remembered::{Remembered, View};
use crate::steering::Steering;
use isomer_cluster::{CancelToken, Gateway, Isolation, OpenError};
use isomer_design::{
    Column, ColumnType, Direction, Key, KeyRange, Schema, SchemaError, TableId, Value,
};
use parking_lot::{Condvar, Mutex};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::Thread;

/// The table, and what was written since old rows were deleted.
pub(crate) struct HistoryTable {
    pub(crate) table: (TableId, Arc<Schema>),
    pub(crate) pruned: Mutex<Pruned>,
    /// The thread that writes, if there is one.
    pub(crate) writer: Mutex<Option<Thread>>,
    /// The turn of the last row that was written.
    pub(crate) written: Mutex<u64>,
    pub(crate) has_written: Condvar,
}

/// When old rows were deleted, and the number of rows that were written since.
#[derive(Default)]
pub(crate) struct Pruned {
    pub(crate) at_ns: u64,
    pub(crate) written: usize,
}

pub(crate) fn schema() -> Result<Schema, SchemaError> {
    let columns = vec![
        Column::new("kind", ColumnType::Text),
        Column::new("order", ColumnType::Int64),
        Column::new("apart", ColumnType::Int64),
        Column::new("text", ColumnType::Text),
    ];
    Schema::new("isomer_history", columns, &["kind", "order", "apart"])
}

impl HistoryTable {
    /// The table of this [`schema`].
    pub(crate) fn of(table: (TableId, Arc<Schema>)) -> HistoryTable {
        let (pruned, writer, written, has_written) = Default::default();
        HistoryTable { table, pruned, writer, written, has_written }
    }

    /// The key and the bytes of a row.
    pub(crate) fn row(&self, place: Place, text: String) -> (Key, Vec<u8>) {
        let Place(kind, order, apart) = place;
        let kind = Value::Text(kind.name().to_owned());
        let values = [kind, Value::Int64(order), Value::Int64(apart), Value::Text(text)];
        self.table.1.encode_row(&values).expect("the values are those of the schema")
    }

    /// The rows of a kind in their order, with their keys. `cancel` ends the wait for their sites.
    pub(crate) fn read(
        &self,
        gateway: &Arc<Gateway>,
        kind: Kind,
        cancel: &Arc<CancelToken>,
    ) -> Result<Vec<(Key, String)>, OpenError> {
        let (table, schema) = &self.table;
        let kind = [Value::Text(kind.name().to_owned())];
        let prefix = schema.encode_prefix(&kind).expect("the first column is a text");
        let mut rows = Vec::new();
        let mut txn = gateway.begin(Isolation::ReadCommitted, cancel.clone());
        let range = KeyRange::starting_with(prefix);
        txn.scan(*table, &range, Direction::Forward, &mut |key: &[u8], row: &[u8]| {
            let text = match schema.decode_row(key, row).map(|mut values| values.pop()) {
                Ok(Some(Value::Text(text))) => text,
                // A row that makes no sense is as good as none.
                _ => String::new(),
            };
            rows.push((Key::from_bytes(key), text));
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }
}

/// Continues the histories of the last conductor.
///
/// # Errors
/// If the table cannot be read.
pub(crate) fn begin(
    gateway: &Arc<Gateway>,
    table: &HistoryTable,
    (chronicle, remembered): (&Chronicle, &Remembered),
    steering: &Steering,
) -> Result<(), OpenError> {
    for view in View::ALL {
        let rows = table.read(gateway, view.kind(), &Arc::default())?;
        let rows = rows.iter().filter_map(|(_, text)| serde_json::from_str(text).ok());
        let last = remembered.begin(view, rows);
        match (view, &steering.decider) {
            (View::Decisions, Decider::Learned(learned)) => learned.number_after(last),
            (View::Decisions, Decider::Elastic(elastic)) => elastic.number_after(last),
            (View::Proposals, _) => steering.proposals.lock().number_after(last),
        }
    }
    let mut all: Vec<Event> = Vec::new();
    for kind in [Kind::Change, Kind::Failover, Kind::Plan] {
        let rows = table.read(gateway, kind, &Arc::default())?;
        all.extend(rows.iter().filter_map(|(_, text)| serde_json::from_str(text).ok()));
    }
    chronicle.begin(all);
    let last = chronicle.plans().iter().map(|plan| plan.number).max().unwrap_or(0);
    isomer_cluster::number_reconfigurations_from(gateway.database(), last + 1);
    Ok(())
}
