//! The contents of the order: batches of commits, and the outcomes of earlier batches.
//!
//! ```text
//!   version u8 │ number │ outcomes of earlier batches │ commits        postcard
//! ```
//!
//! The outcome of a batch is known only after it is in the order. So a later batch reports it.

use crate::record::BadFrame;
use crate::request::CheckedWrites;
use crate::validate::ReadSet;
use isomer_design::Time;
use serde::{Deserialize, Serialize};

/// The version of the encoding.
const VERSION: u8 = 1;

/// Identifies a commit, so that a gateway can ask what became of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
pub struct CommitId {
    /// The run of a gateway. 0: no gateway asks.
    pub gateway: u64,
    /// Counts its commits.
    pub number: u64,
}

/// The commit of one transaction: all that it has read, and the rows that it writes.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct OrderedCommit {
    /// Its name, if the conductor is in another process than its gateway.
    pub id: CommitId,
    /// The spans that it has read, by the time of the reads.
    pub reads: Vec<ReadSet>,
    /// The rows that it writes.
    pub writes: CheckedWrites,
}

/// The outcome of a batch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BatchOutcome {
    /// The number of the batch.
    pub number: u64,
    /// The commit time of its writes.
    pub time: Time,
    /// For each of its commits, whether it was applied.
    pub applied: Vec<bool>,
}

/// One entry of the order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OrderedBatch {
    /// Counts the batches, from 1.
    pub number: u64,
    /// Outcomes of earlier batches that no batch before this one has reported.
    pub outcomes: Vec<BatchOutcome>,
    /// The commits, in their order.
    pub commits: Vec<OrderedCommit>,
}

/// Bytes that are no batch.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a batch of the order is damaged: {0}")]
pub struct BadBatch(String);

impl OrderedBatch {
    /// The encoding of a batch with these commits, which are not copied.
    ///
    /// # Panics
    /// Never: all of its types can be encoded.
    pub fn encode(number: u64, outcomes: &[BatchOutcome], commits: &[&OrderedCommit]) -> Vec<u8> {
        let batch = (number, outcomes, commits);
        postcard::to_extend(&batch, vec![VERSION]).expect("a batch can be encoded")
    }

    /// Reads a batch.
    ///
    /// # Errors
    /// [`BadBatch`].
    pub fn decode(bytes: &[u8]) -> Result<OrderedBatch, BadBatch> {
        let bad = |what: &str| BadBatch(what.to_owned());
        let (version, body) = bytes.split_first().ok_or_else(|| bad("it is empty"))?;
        if *version != VERSION {
            return Err(BadBatch(format!("it has version {version}, not {VERSION}")));
        }
        match postcard::take_from_bytes(body) {
            Ok((batch, [])) => Ok(batch),
            Ok(_) => Err(bad("bytes follow its end")),
            Err(error) => Err(BadBatch(error.to_string())),
        }
    }
}

impl BatchOutcome {
    pub(crate) fn write_all(outcomes: &[BatchOutcome], bytes: &mut Vec<u8>) {
        let body = postcard::to_allocvec(outcomes).expect("outcomes can be encoded");
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&body);
    }

    pub(crate) fn read_all(body: &[u8]) -> Result<Vec<BatchOutcome>, BadFrame> {
        match postcard::take_from_bytes(body) {
            Ok((outcomes, [])) => Ok(outcomes),
            _ => Err(BadFrame { at: 0, what: "the outcomes of batches" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{CheckedWrite, Expect};
    use isomer_design::{Key, KeyRange, Span, TableId};

    #[test]
    fn a_batch_comes_back_and_any_cut_is_an_error() {
        let mut reads = ReadSet::default();
        reads.add(Time(9), TableId(1), Span::Range(KeyRange::ints(3, 7)), 2);
        let write = |expect, row| CheckedWrite { expect, row };
        let rows = [
            (Key::int(1), write(Expect::Version(Some(Time(8))), Some(b"one".to_vec()))),
            (Key::int(2), write(Expect::Version(None), None)),
            (Key::int(3), write(Expect::Anything, Some(Vec::new()))),
        ];
        let writes = CheckedWrites::from([(TableId(1), rows.into_iter().collect())]);
        let outcome = BatchOutcome { number: 6, time: Time(9), applied: vec![true, false] };
        let id = CommitId { gateway: 7, number: 300 };
        let commits =
            vec![OrderedCommit { id, reads: vec![reads], writes }, OrderedCommit::default()];
        let batch = OrderedBatch { number: 7, outcomes: vec![outcome], commits };
        let commits: Vec<&OrderedCommit> = batch.commits.iter().collect();
        let bytes = OrderedBatch::encode(batch.number, &batch.outcomes, &commits);
        assert_eq!(OrderedBatch::decode(&bytes), Ok(batch));
        for cut in 0..bytes.len() {
            assert!(OrderedBatch::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(OrderedBatch::decode(&longer).is_err());
    }
}
