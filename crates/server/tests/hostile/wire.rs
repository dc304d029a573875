//! A client that only reads answers: it remembers the first error, and keeps nothing else.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The longest time for an answer, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The answers until the server was ready for the next message.
#[derive(Default, Debug)]
pub(crate) struct Outcome {
    /// The code of the first error.
    pub(crate) code: Option<String>,
    pub(crate) message: String,
    /// True if the connection has ended.
    pub(crate) ended: bool,
}

pub(crate) struct Wire {
    stream: TcpStream,
}

impl Wire {
    pub(crate) fn start(address: SocketAddr) -> Wire {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        let mut wire = Wire { stream };
        wire.bytes(b"\0\0\0\x15\0\x03\0\0user\0isomer\0\0");
        let started = wire.outcome();
        assert!(started.code.is_none() && !started.ended, "{started:?}");
        wire
    }

    /// Sends bytes. If the server has ended the connection, reading its answer shows it.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    pub(crate) fn send(&mut self, tag: u8, body: &[u8]) {
        self.bytes(&[tag]);
        self.bytes(&(body.len() as i32 + 4).to_be_bytes());
        self.bytes(body);
    }

    pub(crate) fn statement(&mut self, text: &str) -> Outcome {
        self.send(b'Q', &[text.as_bytes(), b"\0"].concat());
        self.outcome()
    }

    /// Reads until the server is ready or ends the connection. A COPY that waits for lines gets
    /// none.
    pub(crate) fn outcome(&mut self) -> Outcome {
        let mut outcome = Outcome::default();
        loop {
            let mut head = [0; 5];
            if self.stream.read_exact(&mut head).is_err() {
                outcome.ended = true;
                return outcome;
            }
            let length = i32::from_be_bytes([head[1], head[2], head[3], head[4]]) as u64 - 4;
            let mut body = (&self.stream).take(length);
            match head[0] {
                b'E' => {
                    let mut fields = Vec::new();
                    let _ = body.read_to_end(&mut fields);
                    if outcome.code.is_none() {
                        for field in
                            fields.split(|byte| *byte == 0).filter(|field| !field.is_empty())
                        {
                            let text = String::from_utf8_lossy(&field[1..]).into_owned();
                            match field[0] {
                                b'C' => outcome.code = Some(text),
                                b'M' => outcome.message = text,
                                _ => {}
                            }
                        }
                    }
                }
                tag => {
                    let _ = std::io::copy(&mut body, &mut std::io::sink());
                    match tag {
                        b'Z' => return outcome,
                        b'G' => self.send(b'f', b"none\0"),
                        _ => {}
                    }
                }
            }
        }
    }
}
