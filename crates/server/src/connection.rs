//! A client's connection: splits a stream of bytes into messages, and sends bytes.
//!
//! ```text
//!   input   ▒▒▒▒▒▒▒▒▒▒██████████████░░░░░░░      ▒ processed   █ received, unprocessed   ░ free
//!                     used_to       read_to
//! ```
//!
//! A message is borrowed from the input buffer. The buffer grows with the bytes received, not with
//! the length that a message announces, and shrinks after a long message. Bytes beyond the initial
//! buffer are charged to the session's [memory](crate::limits::Memory). A message that does not fit
//! is read and discarded, and its client gets an error.

use crate::limits::{self, Memory};
use crate::session::Flush;
use crate::stream::Stream;
use crate::wire::Out;
use isomer_sql::SqlError;
use isomer_sql::budget::Holding;
use std::io::{self, ErrorKind, Read, Write};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Output beyond this size is sent before it is complete.
pub(crate) const FLUSH_BYTES: usize = 128 << 10;
/// The size of reads from a socket.
const READ_BYTES: usize = 32 << 10;
/// The size of the first reads, until one fills the buffer: most clients send short messages.
const FIRST_BYTES: usize = 4 << 10;
/// The memory of an idle session: its thread's stack, its share of the allocator, and these
/// buffers.
const SESSION_BYTES: usize = 192 << 10;
/// The silence after which a session's thread gives its unused memory back.
const REST: Duration = Duration::from_secs(1);
/// The time for a refused client to read the last message before the connection closes.
const LINGER: Duration = Duration::from_secs(1);

/// A socket and its input buffer.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    /// The read timeout.
    silence: Option<Duration>,
    /// The size of reads: [`FIRST_BYTES`] or [`READ_BYTES`].
    reads: usize,
    pub(crate) input: Vec<u8>,
    /// The bytes of `input` from `used_to` to `read_to` are unprocessed.
    pub(crate) read_to: usize,
    pub(crate) used_to: usize,
    /// The memory of the session and of `input`, once there is a session.
    room: Option<Holding>,
    /// A message that is being discarded: its tag, the bytes left, and the error.
    refused: Option<(u8, usize, SqlError)>,
    /// The node that forwards the connection, by its own account.
    pub(crate) passed_by: Option<Arc<str>>,
}

/// Input from a client.
pub(crate) enum Incoming {
    /// A message: its tag, and the range of its body.
    Message(u8, Range<usize>),
    /// A message with this tag exceeded the memory.
    Refused(u8, SqlError),
    /// The client has disconnected.
    End,
}

impl Connection {
    /// # Errors
    /// If the client has already disconnected.
    pub(crate) fn new(stream: Stream, write_timeout: Duration) -> io::Result<Connection> {
        stream.socket().set_write_timeout(Some(write_timeout));
        let (silence, room, refused) = (None, None, None);
        Ok(Connection {
            stream,
            silence,
            reads: FIRST_BYTES,
            input: Vec::new(),
            read_to: 0,
            used_to: 0,
            room,
            refused,
            passed_by: None,
        })
    }

    /// Charges messages to a session's memory from now on.
    pub(crate) fn ask(&mut self, memory: &Memory) -> Result<(), SqlError> {
        self.room = Some(memory.input.keep(SESSION_BYTES)?);
        Ok(())
    }

    /// Grows the input buffer to `bytes`.
    fn grow(&mut self, bytes: usize) -> io::Result<()> {
        if let Some(room) = &mut self.room {
            let more = SESSION_BYTES + bytes.saturating_sub(READ_BYTES);
            room.resize(more).map_err(|error| io::Error::new(ErrorKind::OutOfMemory, error))?;
        }
        self.input.reserve_exact(bytes.saturating_sub(self.input.len()));
        self.input.resize(bytes, 0);
        Ok(())
    }

    /// Releases the memory of long messages.
    fn shrink(&mut self) {
        self.input.truncate(self.reads);
        self.input.shrink_to_fit();
        let room = self.room.iter_mut();
        room.for_each(|room| room.resize(SESSION_BYTES).expect("less is always there"));
    }

    /// Reads until `wanted` bytes are buffered; `false` if the client has disconnected.
    pub(crate) fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        if self.used_to == self.read_to {
            (self.used_to, self.read_to) = (0, 0);
        }
        if self.used_to + wanted > self.input.len() {
            self.input.copy_within(self.used_to..self.read_to, 0);
            self.read_to -= self.used_to;
            self.used_to = 0;
            if self.input.len() > 16 * READ_BYTES
                && wanted < READ_BYTES
                && self.read_to < READ_BYTES
            {
                // After a long message.
                self.shrink();
            }
            if self.input.len() < wanted.max(self.reads) {
                // At most the announced length, and at most twice the bytes received.
                let room = wanted.max(self.reads).min(2 * self.read_to.max(READ_BYTES));
                self.grow(room.max(self.input.len()))?;
            }
        }
        while self.read_to - self.used_to < wanted {
            if self.read_to == self.input.len() {
                let room = (2 * self.input.len()).min(self.used_to + wanted.max(READ_BYTES));
                self.grow(room.max(self.input.len() + 1))?;
            }
            match self.stream.read(&mut self.input[self.read_to..]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.read_to += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.read_to == self.input.len() {
                self.reads = READ_BYTES;
            }
        }
        Ok(true)
    }

    pub(crate) fn i32_at(&self, at: usize) -> i32 {
        let bytes = &self.input[self.used_to + at..self.used_to + at + 4];
        i32::from_be_bytes(bytes.try_into().expect("four bytes"))
    }

    /// Reports the reason and ends the connection.
    pub(crate) fn refuse<T>(&mut self, error: &SqlError) -> io::Result<Option<T>> {
        let mut out = Out::default();
        out.fatal(error);
        self.send(&mut out)?;
        Ok(None)
    }

    /// Reads the rest of the client's input. A socket that is closed with unread input is reset,
    /// and the client might lose the last message.
    pub(crate) fn linger(&mut self) -> io::Result<()> {
        self.stream.end_writing()?;
        self.wait_at_most(Some(LINGER))?;
        let until = limits::now() + LINGER;
        let mut scrap = [0; 4096];
        while limits::now() < until && self.stream.read(&mut scrap)? > 0 {}
        Ok(())
    }

    /// True if a whole message is buffered.
    pub(crate) fn has_message(&self) -> bool {
        let there = self.read_to - self.used_to;
        there >= 5 && usize::try_from(self.i32_at(1)).is_ok_and(|length| there > length)
    }

    /// The kind of the next message, if its whole has arrived.
    pub(crate) fn next_tag(&self) -> Option<u8> {
        self.has_message().then(|| self.input[self.used_to])
    }

    /// The next message.
    pub(crate) fn message(&mut self, bytes_max: usize) -> io::Result<Incoming> {
        if self.refused.is_some() {
            return self.throw_away();
        }
        if !self.fill(5)? {
            return Ok(Incoming::End);
        }
        let (tag, length) = (self.input[self.used_to], self.i32_at(1));
        let Some(length) = usize::try_from(length).ok().filter(|l| (4..=bytes_max).contains(l))
        else {
            let what = format!("a length of {length} is not from 4 to {bytes_max}");
            return Err(io::Error::new(ErrorKind::InvalidData, what));
        };
        match self.fill(1 + length) {
            Ok(true) => {}
            Ok(false) => return Ok(Incoming::End),
            Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                let refused = error.into_inner().and_then(|error| error.downcast().ok());
                let refused: Box<SqlError> = refused.expect("it says why there is no room");
                let there = self.read_to - self.used_to;
                self.refused = Some((tag, 1 + length - there, *refused));
                (self.used_to, self.read_to) = (0, 0);
                self.shrink();
                return self.throw_away();
            }
            Err(error) => return Err(error),
        }
        let body = self.used_to + 5..self.used_to + 1 + length;
        self.used_to = body.end;
        Ok(Incoming::Message(tag, body))
    }

    /// Reads the rest of a discarded message.
    fn throw_away(&mut self) -> io::Result<Incoming> {
        let mut scrap = [0; 4096];
        while let Some((_, left @ 1.., _)) = &mut self.refused {
            let most = scrap.len().min(*left);
            match self.stream.read(&mut scrap[..most]) {
                Ok(0) => return Ok(Incoming::End),
                Ok(count) => *left -= count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let (tag, _, why) = self.refused.take().expect("a message is thrown away");
        Ok(Incoming::Refused(tag, why))
    }

    /// Waits for input for at most `silence`, which is then the read timeout. After [`REST`] it
    /// frees the buffers and calls `give_back`.
    pub(crate) fn wait(
        &mut self,
        silence: Option<Duration>,
        out: &mut Out,
        give_back: fn(),
    ) -> io::Result<()> {
        let rest = silence.is_none_or(|most| most > REST) && self.used_to == self.read_to;
        if !rest || self.refused.is_some() {
            return self.wait_at_most(silence);
        }
        self.wait_at_most(Some(REST))?;
        let silence = match self.fill(1) {
            // Its end is read once more.
            Ok(_) if self.has_message() => return Ok(()),
            Ok(_) => silence,
            Err(error) if is_silence(&error) => {
                (self.input, self.reads) = (Vec::new(), FIRST_BYTES);
                out.bytes.shrink_to(0);
                give_back();
                silence.map(|most| most - REST)
            }
            Err(error) => return Err(error),
        };
        self.wait_at_most(silence)
    }

    pub(crate) fn wait_at_most(&mut self, silence: Option<Duration>) -> io::Result<()> {
        if silence != self.silence {
            self.stream.socket().set_read_timeout(silence)?;
            self.silence = silence;
        }
        Ok(())
    }

    /// Sends the output, and releases the memory of a long answer.
    pub(crate) fn send(&mut self, out: &mut Out) -> io::Result<()> {
        if !out.bytes.is_empty() {
            self.stream.write_all(&out.bytes)?;
            self.stream.flush()?;
            out.sent();
            if out.bytes.capacity() > FLUSH_BYTES {
                out.bytes.shrink_to(READ_BYTES);
            }
        }
        Ok(())
    }
}
/// True for the error of a read timeout.
pub(crate) fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Sends rows while a statement runs.
pub(crate) struct Sending<'s> {
    pub(crate) stream: &'s mut Stream,
}

impl Flush for Sending<'_> {
    fn flush_some(&mut self, out: &mut Out) -> Result<(), SqlError> {
        if out.bytes.len() < FLUSH_BYTES {
            return Ok(());
        }
        let sent = self.stream.write_all(&out.bytes).and_then(|()| self.stream.flush());
        out.sent();
        if out.bytes.capacity() > 4 * FLUSH_BYTES {
            out.bytes.shrink_to(FLUSH_BYTES);
        }
        sent.map_err(|error| SqlError::new("08006", format!("the client does not read: {error}")))
    }
}
