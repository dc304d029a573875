//! A client's connection: messages out of a stream of bytes, and bytes into it.
//!
//! ```text
//!   input   ▒▒▒▒▒▒▒▒▒▒██████████████░░░░░░░      ▒ handled   █ read, to be handled   ░ room
//!                     used_to       read_to
//! ```
//!
//! A message is lent from where it was read to. Room grows with what has come, not with what a message
//! says of its length, and is given back when a long message has passed. What is beyond a first piece is asked
//! of the session's [memory](crate::limits::Memory); a message for which there is none is read and thrown away,
//! and its client told.

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

/// Output is sent when it is longer than this, though more may come.
pub(crate) const FLUSH_BYTES: usize = 128 << 10;
/// A socket is read in pieces of this size.
const READ_BYTES: usize = 32 << 10;
/// The memory of an idle session: its thread's stack and share of the allocator, and the
/// buffers here.
const SESSION_BYTES: usize = 192 << 10;
/// A client that is told why its connection ends has so long to take notice.
const LINGER: Duration = Duration::from_secs(1);

/// A socket, and what was read from it.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    /// How long a read waits.
    silence: Option<Duration>,
    pub(crate) input: Vec<u8>,
    /// The bytes of `input` from `used_to` to `read_to` are not handled yet.
    pub(crate) read_to: usize,
    pub(crate) used_to: usize,
    /// The memory of the session and of `input`, once there is a session.
    room: Option<Holding>,
    /// A message that is thrown away: its tag, how much of it is to come, and why.
    refused: Option<(u8, usize, SqlError)>,
    /// The node that passes the connection on, as that has said.
    pub(crate) passed_by: Option<Arc<str>>,
}

/// What comes from a client.
pub(crate) enum Incoming {
    /// A message: its tag, and where its body is.
    Message(u8, Range<usize>),
    /// A message of this tag was too long for the memory there is.
    Refused(u8, SqlError),
    /// The client has gone.
    End,
}

impl Connection {
    /// # Errors
    /// If the client has gone already.
    pub(crate) fn new(stream: Stream, write_timeout: Duration) -> io::Result<Connection> {
        stream.socket().set_write_timeout(Some(write_timeout));
        let (silence, room, refused) = (None, None, None);
        Ok(Connection {
            stream,
            silence,
            input: Vec::new(),
            read_to: 0,
            used_to: 0,
            room,
            refused,
            passed_by: None,
        })
    }

    /// Asks a session's memory for what its messages take.
    pub(crate) fn ask(&mut self, memory: &Memory) -> Result<(), SqlError> {
        self.room = Some(memory.input.keep(SESSION_BYTES)?);
        Ok(())
    }

    /// Makes room for what is read.
    fn grow(&mut self, bytes: usize) -> io::Result<()> {
        if let Some(room) = &mut self.room {
            let more = SESSION_BYTES + bytes.saturating_sub(READ_BYTES);
            room.resize(more).map_err(|error| io::Error::new(ErrorKind::OutOfMemory, error))?;
        }
        self.input.reserve_exact(bytes.saturating_sub(self.input.len()));
        self.input.resize(bytes, 0);
        Ok(())
    }

    /// Gives back the room of long messages.
    fn shrink(&mut self) {
        self.input.truncate(READ_BYTES);
        self.input.shrink_to_fit();
        let room = self.room.iter_mut();
        room.for_each(|room| room.resize(SESSION_BYTES).expect("less is always there"));
    }

    /// Reads until so many bytes are there; `false` if the client has gone.
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
                // A long message has passed.
                self.shrink();
            }
            if self.input.len() < wanted.max(READ_BYTES) {
                // As long as the message is said to be, but no longer than what has come by twice.
                let room = wanted.max(READ_BYTES).min(2 * self.read_to.max(READ_BYTES));
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
        }
        Ok(true)
    }

    pub(crate) fn i32_at(&self, at: usize) -> i32 {
        let bytes = &self.input[self.used_to + at..self.used_to + at + 4];
        i32::from_be_bytes(bytes.try_into().expect("four bytes"))
    }

    /// Says why the connection ends.
    pub(crate) fn refuse<T>(&mut self, error: &SqlError) -> io::Result<Option<T>> {
        let mut out = Out::default();
        out.fatal(error);
        self.send(&mut out)?;
        Ok(None)
    }

    /// Takes what the client still sends, as it might not see its last answer otherwise: a socket that is
    /// closed with something unread is reset.
    pub(crate) fn linger(&mut self) -> io::Result<()> {
        self.stream.end_writing()?;
        self.wait_at_most(Some(LINGER))?;
        let until = limits::now() + LINGER;
        let mut scrap = [0; 4096];
        while limits::now() < until && self.stream.read(&mut scrap)? > 0 {}
        Ok(())
    }

    /// True if a whole message was read.
    pub(crate) fn has_message(&self) -> bool {
        let there = self.read_to - self.used_to;
        there >= 5 && usize::try_from(self.i32_at(1)).is_ok_and(|length| there > length)
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

    /// Reads the rest of a message for which there is no room.
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

    pub(crate) fn wait_at_most(&mut self, silence: Option<Duration>) -> io::Result<()> {
        if silence != self.silence {
            self.stream.socket().set_read_timeout(silence)?;
            self.silence = silence;
        }
        Ok(())
    }

    /// Sends what there is, and gives back what a long answer took.
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
/// True if a read has waited as long as it was to.
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
