//! Checkpoints in memory, and what a crash leaves of them.

use super::{CheckpointError, Checkpoints, Draft, Found};
use crate::Position;
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Checkpoints in memory. Several handles may share them; the result of
/// [`crash`](MemoryCheckpoints::crash) is separate.
#[derive(Clone, Default)]
pub struct MemoryCheckpoints {
    newest: Arc<Mutex<Option<Arc<Whole>>>>,
}

struct Whole {
    position: Position,
    frames: Vec<Vec<u8>>,
    /// Number of frames that were durable at publication.
    settled: usize,
}

impl MemoryCheckpoints {
    /// Holds no checkpoint yet.
    pub fn new() -> MemoryCheckpoints {
        MemoryCheckpoints::default()
    }

    /// The state that a restart would find: the published checkpoint, without frames that were not
    /// durable. These checkpoints, and drafts in progress, are not changed.
    pub fn crash(&self) -> MemoryCheckpoints {
        let left = self.newest.lock().as_ref().map(|whole| {
            let frames = whole.frames[..whole.settled].to_vec();
            Arc::new(Whole { position: whole.position, frames, settled: whole.settled })
        });
        MemoryCheckpoints { newest: Arc::new(Mutex::new(left)) }
    }
}

impl Checkpoints for MemoryCheckpoints {
    fn newest(&self) -> Option<Found> {
        let bytes = |whole: &Whole| whole.frames.iter().map(|frame| frame.len() as u64).sum();
        let found = |whole: &Arc<Whole>| Found { position: whole.position, bytes: bytes(whole) };
        self.newest.lock().as_ref().map(found)
    }

    fn read(&self, visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<(), CheckpointError> {
        let newest = self.newest.lock().clone();
        let mut frames = newest.iter().flat_map(|whole| &whole.frames);
        let _ = frames.try_for_each(|frame| visit(frame));
        Ok(())
    }

    fn begin(&self, position: Position, _: u64) -> Result<Box<dyn Draft>, CheckpointError> {
        let whole = Whole { position, frames: Vec::new(), settled: 0 };
        Ok(Box::new(MemoryDraft { whole, place: self.newest.clone() }))
    }
}

struct MemoryDraft {
    whole: Whole,
    place: Arc<Mutex<Option<Arc<Whole>>>>,
}

impl Draft for MemoryDraft {
    fn append(&mut self, frame: &[u8]) -> Result<(), CheckpointError> {
        self.whole.frames.push(frame.to_vec());
        Ok(())
    }

    fn settle(&mut self) -> Result<(), CheckpointError> {
        self.whole.settled = self.whole.frames.len();
        Ok(())
    }

    fn publish(self: Box<Self>) -> Result<(), CheckpointError> {
        *self.place.lock() = Some(Arc::new(self.whole));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(checkpoints: &MemoryCheckpoints) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let read = checkpoints.read(&mut |frame| {
            frames.push(frame.to_vec());
            ControlFlow::Continue(())
        });
        read.unwrap();
        frames
    }

    #[test]
    fn a_crash_leaves_the_durable_frames_of_the_published_one() {
        let checkpoints = MemoryCheckpoints::new();
        let mut first = checkpoints.begin(70, 0).unwrap();
        first.append(b"a").unwrap();
        first.settle().unwrap();
        assert!(checkpoints.newest().is_none() && checkpoints.crash().newest().is_none());
        first.publish().unwrap();
        assert_eq!(checkpoints.crash().newest(), Some(Found { position: 70, bytes: 1 }));

        let mut second = checkpoints.begin(90, 0).unwrap();
        second.append(b"b").unwrap();
        second.settle().unwrap();
        second.append(b"too late").unwrap();
        let before = checkpoints.crash();
        second.publish().unwrap();
        assert_eq!(frames(&before), [b"a"]);
        assert_eq!(frames(&checkpoints.crash()), [b"b"]);
        assert_eq!(frames(&checkpoints).len(), 2);
    }
}
