//! A connection: its queue, the thread that reads it, and its timeout.
//!
//! ```text
//!   any thread ── send ─▶ queue ─┬─▶ socket        as many bytes as it accepts, at once
//!                                └─▶ wakes the line's thread, which writes the rest when there is room
//!   line's thread ── poll: input          ─▶ frames ─▶ the receiver of messages
//!                         room to write  ─▶ queue ─▶ socket
//!                         neither        ─▶ ping; or the timeout has passed: the line ends
//! ```
//!
//! With certificates ([`tls`](crate::tls)), output is encrypted on its way to the socket, under the
//! lock of the queue, and input is decrypted.
//!
//! A sending thread writes to the socket itself if the queue is empty, so no other thread must be
//! woken. The socket never blocks a thread. A line that has ended stays so, and keeps the reason.

use crate::edge::now;
use crate::frames::Frames;
use crate::hello::PING;
use crate::tls::{has_name, in_words};
use isomer_site::wire::{self, Head};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::Connection;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The most bytes that are read at once.
const READ_BYTES: usize = 256 << 10;
/// The most encrypted bytes that wait for the socket.
const ENCRYPTED_BYTES: usize = 256 << 10;
/// An idle line sends this many pings within the timeout.
const PINGS: u32 = 4;

/// The limits of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The timeout of input.
    pub(crate) silence: Duration,
    /// The most bytes that may wait to be sent.
    pub(crate) queue_bytes: usize,
}

/// Why a message was not sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Unsent {
    /// The queue is full.
    Full,
    /// The line has ended.
    Over,
}

/// See the [module documentation](self).
pub(crate) struct Line {
    socket: TcpStream,
    queue: Mutex<Queue>,
    /// Wakes the thread that reads the line.
    wake: (UnixStream, UnixStream),
    limits: Limits,
}

struct Queue {
    messages: VecDeque<Vec<u8>>,
    /// How many bytes of the first message are sent.
    sent: usize,
    bytes: usize,
    /// When bytes were last sent.
    sent_at: Instant,
    /// New messages are refused; queued ones are still sent.
    is_closing: bool,
    over: Option<String>,
    /// The encryption, if there is one.
    tls: Option<Box<Connection>>,
}

/// A receiver of a line's messages.
pub(crate) trait Takes {
    /// The limit for the length of a message.
    fn longest(&self) -> usize;

    /// Handles a message.
    ///
    /// # Errors
    /// The reason to end the line.
    fn take(&mut self, head: Head, message: Vec<u8>) -> Result<(), String>;

    /// A deadline for an expected message, beside the line's timeout.
    fn deadline(&self) -> Option<Instant> {
        None
    }
}

impl Line {
    /// Takes over a connection.
    ///
    /// # Errors
    /// If the system refuses to configure the socket.
    pub(crate) fn new(
        socket: TcpStream,
        limits: Limits,
        mut tls: Option<Connection>,
    ) -> std::io::Result<Line> {
        if let Some(tls) = &mut tls {
            tls.set_buffer_limit(Some(ENCRYPTED_BYTES));
        }
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let wake = UnixStream::pair()?;
        wake.0.set_nonblocking(true)?;
        wake.1.set_nonblocking(true)?;
        let queue = Queue {
            messages: VecDeque::new(),
            sent: 0,
            bytes: 0,
            sent_at: now(),
            is_closing: false,
            over: None,
            tls: tls.map(Box::new),
        };
        Ok(Line { socket, queue: Mutex::new(queue), wake, limits })
    }

    /// Queues a message; never blocks.
    pub(crate) fn send(&self, message: Vec<u8>) -> Result<(), Unsent> {
        let mut queue = self.queue.lock();
        if queue.over.is_some() || queue.is_closing {
            return Err(Unsent::Over);
        }
        // A message beyond the limit is sent if the queue is empty.
        let waits = queue.bytes > 0;
        if waits && queue.bytes + message.len() > self.limits.queue_bytes {
            return Err(Unsent::Full);
        }
        queue.bytes += message.len();
        queue.messages.push_back(message);
        if !waits {
            queue.flush(&self.socket);
            if queue.waits() || queue.over.is_some() {
                self.wake();
            }
        }
        Ok(())
    }

    /// True if the queue is less than half full.
    pub(crate) fn has_room(&self) -> bool {
        self.queue.lock().bytes < self.limits.queue_bytes / 2
    }

    /// True if the line has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.queue.lock().over.is_some()
    }

    /// Queues a last message, and ends the line when it is sent.
    pub(crate) fn send_last(&self, message: Vec<u8>) {
        let _ = self.send(message);
        self.queue.lock().is_closing = true;
        self.wake();
    }

    /// Ends the line.
    pub(crate) fn end(&self, why: &str) {
        self.queue.lock().over.get_or_insert_with(|| why.to_owned());
        self.wake();
    }

    /// True if the other end may use this name: its certificate has it, or there are no
    /// certificates.
    pub(crate) fn may_be(&self, name: &str) -> bool {
        self.queue.lock().tls.as_ref().is_none_or(|tls| has_name(tls, name))
    }

    fn wake(&self) {
        // If the pipe is full, the thread is awake.
        let _ = (&self.wake.0).write(&[1]);
    }

    /// Reads the line until it ends; returns the reason.
    pub(crate) fn run(&self, takes: &mut dyn Takes) -> String {
        let (mut frames, mut heard) = (Frames::default(), now());
        let mut buffer = vec![0; READ_BYTES];
        let why = loop {
            let is_writing = {
                let queue = self.queue.lock();
                if let Some(why) = &queue.over {
                    break why.clone();
                }
                let waits = queue.waits();
                if queue.is_closing && !waits {
                    break "it was ended".to_owned();
                }
                waits
            };
            let ready = match self.wait(is_writing) {
                Ok(ready) => ready,
                Err(error) => break error,
            };
            if ready.can_write {
                self.queue.lock().flush(&self.socket);
            }
            if ready.can_read {
                match self.read(&mut buffer, &mut frames, takes) {
                    Ok(()) => heard = now(),
                    Err(why) => break why,
                }
            }
            let now = now();
            if now - heard >= self.limits.silence {
                break format!("it has said nothing for {} ms", self.limits.silence.as_millis());
            }
            if takes.deadline().is_some_and(|deadline| now >= deadline) {
                break "it has not said who it is in time".to_owned();
            }
            self.ping(now);
        };
        self.end(&why);
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        why
    }

    fn wait(&self, is_writing: bool) -> Result<Ready, String> {
        let wanted = if is_writing { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let pause = self.limits.silence / PINGS / 2;
        let pause = Timespec {
            tv_sec: i64::try_from(pause.as_secs()).unwrap_or(1),
            tv_nsec: i64::from(pause.subsec_nanos()),
        };
        let mut looked =
            [PollFd::new(&self.socket, wanted), PollFd::new(&self.wake.1, PollFlags::IN)];
        match poll(&mut looked, Some(&pause)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.to_string()),
        }
        let (socket, woken) = (looked[0].revents(), looked[1].revents());
        if !woken.is_empty() {
            let mut bytes = [0; 64];
            while matches!((&self.wake.1).read(&mut bytes), Ok(64)) {}
        }
        let ends = PollFlags::HUP | PollFlags::ERR;
        Ok(Ready {
            can_read: socket.intersects(PollFlags::IN | ends),
            can_write: socket.contains(PollFlags::OUT),
        })
    }

    fn read(
        &self,
        buffer: &mut [u8],
        frames: &mut Frames,
        takes: &mut dyn Takes,
    ) -> Result<(), String> {
        match (&self.socket).read(buffer) {
            Ok(0) => Err(self.queue.lock().ended().to_owned()),
            Ok(count) => {
                let bytes = &buffer[..count];
                let plain = self.queue.lock().decrypt(bytes, &self.socket)?;
                let bytes = plain.as_deref().unwrap_or(bytes);
                frames.add(bytes, takes.longest(), |head, message| {
                    if head.kind == PING { Ok(()) } else { takes.take(head, message) }
                })
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn ping(&self, now: Instant) {
        let is_due = {
            let queue = self.queue.lock();
            queue.bytes == 0 && now - queue.sent_at >= self.limits.silence / PINGS
        };
        if is_due {
            let _ = self.send(wire::carried(PING, &()));
        }
    }
}

struct Ready {
    can_read: bool,
    can_write: bool,
}

impl Queue {
    /// True if bytes wait for room in the socket.
    fn waits(&self) -> bool {
        self.bytes > 0 || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Why the other end has closed the connection.
    fn ended(&self) -> &'static str {
        match &self.tls {
            Some(tls) if tls.is_handshaking() => {
                "it has ended the connection, and not encrypted it: all processes of a cluster are given certificates, or \
                 none"
            }
            _ => "it has ended the connection",
        }
    }

    /// Decrypts input; `None` without encryption. Also writes the encryption's own answers.
    fn decrypt(&mut self, mut bytes: &[u8], socket: &TcpStream) -> Result<Option<Vec<u8>>, String> {
        let Some(tls) = &mut self.tls else { return Ok(None) };
        let (mut plain, mut wrong) = (Vec::new(), None);
        while !bytes.is_empty() && wrong.is_none() {
            tls.read_tls(&mut bytes).map_err(|error| error.to_string())?;
            match tls.process_new_packets() {
                Ok(state) => {
                    let from = plain.len();
                    plain.resize(from + state.plaintext_bytes_to_read(), 0);
                    let read = tls.reader().read_exact(&mut plain[from..]);
                    read.map_err(|error| error.to_string())?;
                }
                Err(error) => wrong = Some(in_words(&error)),
            }
        }
        // Also after an error, so that the other end gets the alert.
        self.flush(socket);
        wrong.map_or(Ok(Some(plain)), Err)
    }

    /// Writes as many bytes as the socket accepts.
    fn flush(&mut self, socket: &TcpStream) {
        let written = match self.tls.take() {
            None => self.write_to(&mut &*socket),
            Some(mut tls) => {
                let written = self.write_encrypted(&mut tls, socket);
                self.tls = Some(tls);
                written
            }
        };
        if let Err(why) = written {
            self.over.get_or_insert(why);
        }
    }

    fn write_encrypted(&mut self, tls: &mut Connection, socket: &TcpStream) -> Result<(), String> {
        loop {
            self.write_to(&mut Encrypts(tls))?;
            if !tls.wants_write() {
                return Ok(());
            }
            match tls.write_tls(&mut &*socket) {
                Ok(0) => return Err("it takes nothing".to_owned()),
                Ok(_) => self.sent_at = now(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Writes messages while `to` accepts bytes.
    fn write_to(&mut self, to: &mut dyn Write) -> Result<(), String> {
        while let Some(message) = self.messages.front() {
            match to.write(&message[self.sent..]) {
                Ok(0) => return Err("it takes nothing".to_owned()),
                Ok(count) => {
                    (self.sent, self.sent_at) = (self.sent + count, now());
                    if self.sent == message.len() {
                        self.bytes -= message.len();
                        self.sent = 0;
                        self.messages.pop_front();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }
}

/// Accepts plain bytes while there is room for the encrypted ones.
struct Encrypts<'c>(&'c mut Connection);

impl Write for Encrypts<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.0.writer().write(bytes)? {
            0 => Err(ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
