//! Messages from a stream of bytes.
//!
//! ```text
//!   bytes as they come   ..│head│bo           dy│head│body│he      ad│body│..
//!                              add ─▶ nothing   add ─▶ two messages   add ─▶ one
//! ```
//!
//! The length in a head is trusted only as far as bytes arrive: memory grows with the bytes that
//! were sent. After an invalid message the rest of the stream is meaningless.

use isomer_site::wire::{BadMessage, HEAD_BYTES, Head};

/// The first byte of the TLS records that may come first.
const TLS_ALERT: u8 = 21;
const TLS_HANDSHAKE: u8 = 22;
const ENCRYPTS: &str = "it encrypts: all processes of a cluster are given certificates, or none";

/// Extracts messages from a stream of bytes. See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Frames {
    /// The bytes of the next message that have arrived.
    next: Vec<u8>,
}

impl Frames {
    /// Adds bytes, and passes each message that they complete to `take`, with its head, in order.
    ///
    /// `longest` is the limit for the length of a message.
    ///
    /// # Errors
    /// A message, if the bytes are not a stream of messages, or `take` has failed.
    pub(crate) fn add(
        &mut self,
        mut bytes: &[u8],
        longest: usize,
        mut take: impl FnMut(Head, Vec<u8>) -> Result<(), String>,
    ) -> Result<(), String> {
        while !bytes.is_empty() {
            self.fill(&mut bytes, HEAD_BYTES);
            let Some(head) = self.next.first_chunk::<HEAD_BYTES>() else {
                // Another version may have a shorter head.
                return match self.next.first().copied() {
                    Some(TLS_ALERT | TLS_HANDSHAKE) => Err(ENCRYPTS.to_owned()),
                    Some(version) if version != isomer_site::wire::VERSION => {
                        Err(BadMessage::Version(version).to_string())
                    }
                    _ => Ok(()),
                };
            };
            if matches!(self.next[0], TLS_ALERT | TLS_HANDSHAKE) {
                return Err(ENCRYPTS.to_owned());
            }
            let head = Head::read(head).map_err(|bad| bad.to_string())?;
            let length = HEAD_BYTES + head.body_bytes;
            if length > longest {
                return Err(format!("a message of {length} bytes, where {longest} are allowed"));
            }
            self.fill(&mut bytes, length);
            if self.next.len() == length {
                let message = std::mem::take(&mut self.next);
                Head::of(&message).map_err(|bad| bad.to_string())?;
                take(head, message)?;
            }
        }
        Ok(())
    }

    /// Moves bytes to the message until it has `length`.
    fn fill(&mut self, bytes: &mut &[u8], length: usize) {
        let missing = length.saturating_sub(self.next.len()).min(bytes.len());
        let (now, rest) = bytes.split_at(missing);
        self.next.extend_from_slice(now);
        *bytes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::SiteId;
    use isomer_site::wire::{self, Tick};
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn message(rng: &mut Xoshiro256PlusPlus) -> Vec<u8> {
        let mut bytes = match rng.random_range(0..3) {
            0 => wire::ask(SiteId(rng.random_range(1..=1024)), &Tick),
            1 => wire::not_understood(&"why ".repeat(rng.random_range(0..2000))),
            _ => wire::carried(96, &(rng.random::<u64>(), "name")),
        };
        wire::set_number(&mut bytes, rng.random());
        bytes
    }

    fn all(frames: &mut Frames, bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut came = Vec::new();
        frames.add(bytes, 1 << 20, |_, message| {
            came.push(message);
            Ok(())
        })?;
        Ok(came)
    }

    #[test]
    fn messages_come_however_the_stream_is_cut() {
        for seed in 0..200 {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let sent: Vec<Vec<u8>> = (0..10).map(|_| message(&mut rng)).collect();
            let (stream, mut frames, mut came) = (sent.concat(), Frames::default(), Vec::new());
            let mut rest = &stream[..];
            while !rest.is_empty() {
                let cut = rng.random_range(1..=rest.len().min(3000));
                came.extend(all(&mut frames, &rest[..cut]).expect("they are messages"));
                rest = &rest[cut..];
            }
            assert_eq!(came, sent, "seed {seed}");
        }
    }

    /// Damage never produces a message that was not sent.
    #[test]
    fn damaged_streams_bring_nothing_that_was_not_sent() {
        let mut refused = 0;
        for seed in 0..3000 {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let sent: Vec<Vec<u8>> = (0..4).map(|_| message(&mut rng)).collect();
            let mut stream = sent.concat();
            let at = rng.random_range(0..stream.len());
            match rng.random_range(0..4) {
                0 => stream[at] ^= 1 << rng.random_range(0..8),
                1 => drop(stream.drain(at..(at + rng.random_range(1..9)).min(stream.len()))),
                2 => drop(stream.splice(at..at, (0..5).map(|_| rng.random()))),
                _ => stream[at..].iter_mut().for_each(|byte| *byte = rng.random()),
            }
            let (mut frames, mut came) = (Frames::default(), Vec::new());
            let ended = frames.add(&stream, 1 << 20, |_, message| {
                came.push(message);
                Ok(())
            });
            refused += usize::from(ended.is_err());
            let is_prefix = came.iter().zip(&sent).all(|(came, sent)| came == sent);
            // A byte that was inserted may equal the one that follows.
            assert!(is_prefix, "seed {seed}: something came that was not sent");
            assert!(frames.next.len() <= stream.len(), "seed {seed}");
        }
        assert!(refused > 1500, "only {refused} were refused");
    }

    #[test]
    fn what_is_announced_is_not_believed_before_it_comes() {
        let mut frames = Frames::default();
        let mut long = wire::not_understood("short");
        long[2..6].copy_from_slice(&1_000_000_u32.to_le_bytes());
        assert_eq!(all(&mut frames, &long), Ok(Vec::new()));
        assert!(frames.next.capacity() < 1000);
        long[2..6].copy_from_slice(&u32::MAX.to_le_bytes());
        let refused = all(&mut Frames::default(), &long).expect_err("it is too long");
        assert_eq!(refused, "a message of 4294967313 bytes, where 1048576 are allowed");
        let other = all(&mut Frames::default(), b"GET / HTTP/1.1\r\n").expect_err("no message");
        assert!(
            other.starts_with("a message of version 71; this program knows version"),
            "{other}"
        );
    }
}
