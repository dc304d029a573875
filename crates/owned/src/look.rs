//! The state of a log, for processes that do not own it. Nothing is claimed, and the owner is not
//! disturbed.

use crate::ownership::{Broken, Reader, Verdict};
use crate::partition::{Partition, Refused, Written};
use crate::record::{Head, Offset, Term};
use crate::stream::Assembly;
use isomer_log::Position;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The state of a log when it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Look {
    /// The current term; number 0 if the log was never claimed.
    pub term: Term,
    /// The owner's name.
    pub owner: Arc<str>,
    /// True if the log has no owner: the last one has released it.
    pub is_released: bool,
    /// Where the first available frame begins.
    pub begin: Position,
    /// Where the last whole frame ends.
    pub end: Position,
    /// The first available offset, and the one after the last.
    pub offsets: (Offset, Offset),
    /// The last whole frame.
    pub last: Option<Vec<u8>>,
}

/// Reads a log from its beginning to its end.
pub(crate) fn look(
    partition: &impl Partition,
    database: u128,
    number: u32,
) -> Result<Look, Refused> {
    let (first, end) = partition.bounds()?;
    let mut reader = Reader::new(database, number, first);
    let (mut assembly, mut last, mut broken) = (Assembly::default(), None, None);
    let mut owner = None;
    partition.read(first, &mut |Written { offset, writer, record }| {
        match pass(&mut reader, &mut assembly, offset, record, &mut last) {
            // Each record names its writer, because the claim may have been removed.
            Ok(Verdict::Void(_)) => ControlFlow::Continue(()),
            Ok(_) => {
                owner = writer.map(|writer| String::from_utf8_lossy(writer).into_owned());
                ControlFlow::Continue(())
            }
            Err(error) => {
                broken = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = broken {
        return Err(Refused(error.to_string()));
    }
    Ok(Look {
        term: reader.term(),
        owner: owner.map_or_else(|| reader.owner().clone(), Arc::from),
        is_released: reader.is_released(),
        begin: reader.begin(),
        end: reader.whole(),
        offsets: (first, end.max(reader.next())),
        last,
    })
}

fn pass(
    reader: &mut Reader,
    assembly: &mut Assembly,
    offset: Offset,
    record: &[u8],
    last: &mut Option<Vec<u8>>,
) -> Result<Verdict, Broken> {
    let (head, body) = Head::read(record).map_err(|error| Broken::Bad { offset, error })?;
    let verdict = reader.pass(offset, &head, body)?;
    match verdict {
        Verdict::Begins => assembly.begin(),
        Verdict::Counts(from) if reader.has_begun() => {
            let (position, piece) = (head.position + u64::from(from), &body[from as usize..]);
            let _ = assembly.push(position, piece, &mut |_, frame| {
                *last = Some(frame.to_vec());
                ControlFlow::Continue(())
            });
        }
        Verdict::Counts(_) | Verdict::Released | Verdict::Void(_) => {}
    }
    Ok(verdict)
}
