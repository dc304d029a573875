//! The batch of the total order that a failed site may lack ([`crate::ordered`]).
//!
//! A site installs its part of a batch without a vote, because the order has the batch. If it fails
//! before its frame is durable, the others complete its history with that frame, as with the end of
//! a transaction that it had prepared.

use super::{FrameBytes, TailCopy, TailFrame};
use crate::frame::FrameKind;
use crate::ordered::BatchOutcome;
use crate::overlay::RowWrite;
use crate::place::Place;
use crate::record::FrameWriter;
use isomer_design::Version;

impl TailCopy {
    /// The outcomes in the newest frame of a batch.
    pub fn batch_outcomes(&self) -> Vec<BatchOutcome> {
        let newest = self.frames.iter().rev().find_map(|frame| match frame.bytes.read().0.kind {
            FrameKind::Batch(outcomes) => Some(outcomes),
            _ => None,
        });
        newest.unwrap_or_default()
    }

    /// The frame of a batch after these frames: rows of the site, by partition, with the version
    /// that each partition has. The last outcome is that of the batch.
    ///
    /// # Panics
    /// If there is no outcome.
    pub fn lacking_batch(
        &self,
        outcomes: &[BatchOutcome],
        parts: &[(Place, Version, Vec<RowWrite>)],
    ) -> TailFrame {
        let time = outcomes.last().expect("the outcome of the batch").time;
        let mut frame = FrameWriter::new(FrameKind::Batch(outcomes.to_vec()));
        for ((table, start), version, rows) in parts {
            frame.open_write(*table, start, *version);
            rows.iter().for_each(|row| frame.row(&row.key, row.value.as_deref()));
            frame.close_write();
        }
        TailFrame { position: self.received, bytes: FrameBytes::of(frame.finish(time)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::{Key, TableId, Time};

    #[test]
    fn the_frame_leads_each_partition_to_its_next_version() {
        let tail = TailCopy { received: 90, ..TailCopy::default() };
        let outcome = BatchOutcome { number: 7, time: Time(55), applied: vec![true] };
        let row = |key| RowWrite { table: TableId(1), key: Key::int(key), value: None };
        let parts = [
            ((TableId(1), Key::int(0)), 4, vec![row(1), row(2)]),
            ((TableId(1), Key::int(5)), 9, vec![row(6)]),
        ];
        let frame = tail.lacking_batch(std::slice::from_ref(&outcome), &parts);
        let (head, records) = frame.bytes.read();
        assert_eq!((frame.position, head.time), (90, Time(55)));
        assert_eq!(head.kind, FrameKind::Batch(vec![outcome.clone()]));
        let versions: Vec<_> = records.iter().map(|it| (it.previous, it.version)).collect();
        assert_eq!(versions, [(4, 5), (9, 10)]);
        let tail = TailCopy { frames: vec![frame], ..tail };
        assert_eq!(tail.batch_outcomes(), [outcome]);
    }
}
