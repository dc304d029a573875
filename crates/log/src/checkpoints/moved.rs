//! Checkpoints that move to a new place: those of the old one count until the new one has a newer
//! one.

use super::{CheckpointError, Checkpoints, Draft, Found};
use crate::Position;
use std::ops::ControlFlow;
use std::sync::Arc;

/// See the [module documentation](self).
pub struct MovedCheckpoints {
    old: Arc<dyn Checkpoints>,
    new: Arc<dyn Checkpoints>,
}

impl MovedCheckpoints {
    /// Reads from both places, and writes new checkpoints to `new` only.
    pub fn new(old: Arc<dyn Checkpoints>, new: Arc<dyn Checkpoints>) -> MovedCheckpoints {
        MovedCheckpoints { old, new }
    }

    /// The place of the newest checkpoint.
    fn place(&self) -> &dyn Checkpoints {
        let position = |place: &dyn Checkpoints| place.newest().map(|newest| newest.position);
        if position(&*self.old) > position(&*self.new) { &*self.old } else { &*self.new }
    }
}

impl Checkpoints for MovedCheckpoints {
    fn newest(&self) -> Option<Found> {
        self.place().newest()
    }

    fn read(&self, visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<(), CheckpointError> {
        self.place().read(visit)
    }

    fn begin(&self, position: Position, bytes: u64) -> Result<Box<dyn Draft>, CheckpointError> {
        self.new.begin(position, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryCheckpoints;

    fn write(checkpoints: &dyn Checkpoints, position: Position, frame: &[u8]) {
        let mut draft = checkpoints.begin(position, 1).unwrap();
        draft.append(frame).unwrap();
        draft.settle().unwrap();
        draft.publish().unwrap();
    }

    #[test]
    fn the_old_place_counts_until_the_new_one_has_a_newer_one() {
        let places = [MemoryCheckpoints::new(), MemoryCheckpoints::new()];
        let [old, new] = places.clone();
        write(&old, 70, b"old");
        let moved = MovedCheckpoints::new(Arc::new(old), Arc::new(new));
        let read = || {
            let mut frames = Vec::new();
            let read = moved.read(&mut |frame| {
                frames.push(frame.to_vec());
                ControlFlow::Continue(())
            });
            read.unwrap();
            (moved.newest().unwrap().position, frames)
        };
        assert_eq!(read(), (70, vec![b"old".to_vec()]));
        write(&moved, 90, b"new");
        assert_eq!(read(), (90, vec![b"new".to_vec()]));
        assert_eq!(places[0].newest().unwrap().position, 70, "nothing is written to the old place");
    }
}
