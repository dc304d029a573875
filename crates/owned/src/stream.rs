//! Cuts frames into the bodies of records, and reassembles them. The picture is in
//! [`record`](crate::record).

use crate::record::FRAME_HEAD_BYTES;
use isomer_log::Position;
use std::ops::ControlFlow;

/// The body of a record of frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Where in `bytes` the first frame begins; their number if none does.
    pub first: u32,
    /// Where in `bytes` the last complete frame ends; 0 if none does.
    pub whole: u32,
}

/// Cuts frames into pieces. A piece holds all whole frames that fit; a longer frame spans several.
pub struct Cut {
    bytes_max: usize,
    /// The full pieces.
    pieces: Vec<Piece>,
    /// The bytes of the piece being filled.
    bytes: Vec<u8>,
    first: Option<u32>,
    whole: u32,
}

impl Cut {
    /// Pieces of up to `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Cut {
        assert!(bytes_max > FRAME_HEAD_BYTES, "a piece has room for the head of a frame");
        Cut { bytes_max, pieces: Vec::new(), bytes: Vec::new(), first: None, whole: 0 }
    }

    /// Adds a frame.
    pub fn push(&mut self, frame: &[u8]) {
        if self.bytes.len() + FRAME_HEAD_BYTES + frame.len() > self.bytes_max {
            self.next_piece();
        }
        self.first.get_or_insert(self.bytes.len() as u32);
        self.bytes.extend_from_slice(&(frame.len() as u64).to_le_bytes());
        let mut rest = frame;
        while self.bytes.len() + rest.len() > self.bytes_max {
            let (now, later) = rest.split_at(self.bytes_max - self.bytes.len());
            self.bytes.extend_from_slice(now);
            self.next_piece();
            rest = later;
        }
        self.bytes.extend_from_slice(rest);
        self.whole = self.bytes.len() as u32;
    }

    fn next_piece(&mut self) {
        if !self.bytes.is_empty() {
            let bytes = std::mem::take(&mut self.bytes);
            let first = self.first.take().unwrap_or(bytes.len() as u32);
            self.pieces.push(Piece { bytes, first, whole: std::mem::take(&mut self.whole) });
        }
    }

    /// The pieces; none if there were no frames.
    pub fn finish(mut self) -> Vec<Piece> {
        self.next_piece();
        self.pieces
    }
}

/// Reassembles frames from the pieces that count.
#[derive(Default, Debug)]
pub struct Assembly {
    /// The received part of an incomplete frame, with its length in front.
    rest: Vec<u8>,
    /// Where that frame begins.
    at: Position,
}

impl Assembly {
    /// A new term begins: drops an incomplete frame.
    pub fn begin(&mut self) {
        self.rest.clear();
    }

    /// Takes the piece of the stream at `position`, and passes the frames that it completes to
    /// `visit`, until it breaks.
    pub fn push(
        &mut self,
        position: Position,
        piece: &[u8],
        visit: &mut dyn FnMut(Position, &[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if self.rest.is_empty() {
            self.at = position;
            let taken = self.whole_frames(piece, visit)?;
            self.rest.extend_from_slice(&piece[taken..]);
            return ControlFlow::Continue(());
        }
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(piece);
        // A frame over many pieces is parsed once it is complete, not with each piece.
        let taken = self.whole_frames(&rest, visit)?;
        rest.drain(..taken);
        self.rest = rest;
        ControlFlow::Continue(())
    }

    /// Visits the whole frames at the front of `bytes`. Returns the number of bytes that they take.
    fn whole_frames(
        &mut self,
        bytes: &[u8],
        visit: &mut dyn FnMut(Position, &[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<(), usize> {
        let mut taken = 0;
        while let Some((length, rest)) = bytes[taken..].split_first_chunk::<FRAME_HEAD_BYTES>()
            && let Some(frame) = rest.get(..u64::from_le_bytes(*length) as usize)
        {
            let (at, frame_bytes) = (self.at, FRAME_HEAD_BYTES + frame.len());
            self.at += frame_bytes as u64;
            taken += frame_bytes;
            visit(at, frame)?;
        }
        ControlFlow::Continue(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn together(pieces: &[Piece], begin: Position) -> Vec<(Position, Vec<u8>)> {
        let (mut assembly, mut position, mut frames) = (Assembly::default(), begin, Vec::new());
        for piece in pieces {
            let flow = assembly.push(position, &piece.bytes, &mut |at, frame| {
                frames.push((at, frame.to_vec()));
                ControlFlow::Continue(())
            });
            assert!(flow.is_continue());
            position += piece.bytes.len() as u64;
        }
        frames
    }

    #[test]
    fn frames_of_all_lengths_are_reassembled_from_every_piece_that_begins_one() {
        for bytes_max in [9, 10, 16, 17, 40, 100] {
            let lengths = (0..60).chain([200, 0, 1, 92, 8, 33]);
            let frames: Vec<Vec<u8>> = lengths.map(|length| vec![length as u8; length]).collect();
            let mut cut = Cut::new(bytes_max);
            let (mut expected, mut end) = (Vec::new(), 7);
            for frame in &frames {
                cut.push(frame);
                expected.push((end, frame.clone()));
                end += (FRAME_HEAD_BYTES + frame.len()) as u64;
            }
            let pieces = cut.finish();
            assert!(pieces.iter().all(|piece| piece.bytes.len() <= bytes_max));
            assert_eq!(together(&pieces, 7), expected);
            let mut position = 7;
            for (at, piece) in pieces.iter().enumerate() {
                let begin = position + u64::from(piece.first);
                position += piece.bytes.len() as u64;
                if (piece.first as usize) < piece.bytes.len() {
                    let mut rest = pieces[at..].to_vec();
                    rest[0].bytes.drain(..piece.first as usize);
                    let after: Vec<_> =
                        expected.iter().filter(|(at, _)| *at >= begin).cloned().collect();
                    assert_eq!(together(&rest, begin), after, "{bytes_max}, piece {at}");
                }
                let ends = expected.iter().any(|(at, frame)| {
                    at + (FRAME_HEAD_BYTES + frame.len()) as u64
                        == position - piece.bytes.len() as u64 + u64::from(piece.whole)
                });
                assert!(piece.whole == 0 || ends, "{bytes_max}, piece {at}");
            }
        }
    }

    #[test]
    fn frames_that_fit_share_a_piece() {
        let mut cut = Cut::new(1000);
        (0..10).for_each(|_| cut.push(&[1; 92]));
        let pieces = cut.finish();
        assert_eq!(pieces.len(), 1);
        assert_eq!((pieces[0].first, pieces[0].whole), (0, 1000));
        assert_eq!(Cut::new(10).finish(), Vec::new());
    }

    #[test]
    fn a_new_term_drops_an_incomplete_frame() {
        let mut cut = Cut::new(50);
        cut.push(&[1; 100]);
        let torn = cut.finish();
        let mut assembly = Assembly::default();
        let mut seen = Vec::new();
        let mut visit = |at, frame: &[u8]| {
            seen.push((at, frame.to_vec()));
            ControlFlow::Continue(())
        };
        assert!(assembly.push(0, &torn[0].bytes, &mut visit).is_continue());
        assembly.begin();
        let mut cut = Cut::new(50);
        cut.push(b"next");
        assert!(assembly.push(0, &cut.finish()[0].bytes, &mut visit).is_continue());
        assert_eq!(seen, [(0, b"next".to_vec())]);
    }
}
