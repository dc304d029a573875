//! Inbound connections: a process that has dialled this one, until all of its requests have ended.
//!
//! ```text
//!   hello ─▶ checked ─▶ welcome ─▶ requests ─▶ pool ─▶ endpoint ─▶ answers
//!                                 messages ─▶ endpoint
//!   connection ends ─▶ requests are cancelled ─▶ none is in progress ─▶ the name is free again
//! ```
//!
//! **One process per name.** Until the last request of a guest has ended, other processes of its
//! name are refused. So a router that was killed has no step in progress at this process when its
//! next run reads the state of the sites. And of two processes that were given one name, the second
//! gets an error.

use crate::edge::now;
use crate::envelopes::{Service, envelope, introduced};
use crate::hello::{
    ASK_LOGS, ASK_RUN, ASK_STATUS, ENVELOPE, HELLO, HELLO_BYTES_MAX, Hello, INTRODUCTION, JOINED,
    JOINS, LEAVES, LOGS, REFUSED, RESTART, RUN, STATUS, WELCOME,
};
use crate::line::{Line, Takes, Unsent};
use crate::net::Shared;
use isomer_cluster::{CancelReason, CancelToken, Endpoint};
use isomer_site::wire::{self, Asked, Head, MESSAGE, ToGateway};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The timeout of the handshake.
const GREETING: Duration = Duration::from_secs(5);
/// The kinds of requests that run a transaction or read; clients cause them.
const CLIENTS: [u8; 5] = [1, 2, 10, 12, 14];
const REQUESTS: std::ops::RangeInclusive<u8> = 1..=63;

/// The requests of a guest that have no answer yet.
#[derive(Default)]
pub(crate) struct Requests {
    under_way: Mutex<HashMap<u64, Arc<CancelToken>>>,
    ended: Condvar,
}

impl Requests {
    fn begin(&self, number: u64) -> Arc<CancelToken> {
        let token = Arc::new(CancelToken::default());
        self.under_way.lock().insert(number, token.clone());
        token
    }

    fn end(&self, number: u64) {
        self.under_way.lock().remove(&number);
        self.ended.notify_all();
    }

    /// Cancels all requests, and waits until none is in progress.
    fn end_all(&self) {
        let mut under_way = self.under_way.lock();
        under_way.values().for_each(|token| token.end(CancelReason::Gone));
        while !under_way.is_empty() {
            self.ended.wait(&mut under_way);
        }
    }
}

/// A request in progress. If it panics, its connection ends, because no answer will come.
struct UnderWay {
    requests: Arc<Requests>,
    line: Arc<Line>,
    number: u64,
    is_answered: bool,
}

impl UnderWay {
    fn answer(mut self, answer: Option<Vec<u8>>) {
        self.is_answered = true;
        let Some(mut answer) = answer else { return };
        wire::set_number(&mut answer, self.number);
        if self.line.send(answer) == Err(Unsent::Full) {
            // A missing answer would never be noticed.
            self.line.end("it does not read its answers");
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if !self.is_answered {
            self.line.end("a request has failed; standard error says why");
        }
        self.requests.end(self.number);
    }
}

/// Serves a guest until its connection ends.
pub(crate) fn serve(line: &Arc<Line>, shared: &Arc<Shared>) {
    let mut guest = Guest {
        line: line.clone(),
        shared: shared.clone(),
        requests: Arc::default(),
        is: Is::Unknown { until: now() + GREETING },
    };
    line.run(&mut guest);
    guest.requests.end_all();
    if let Is::Known { name, .. } = guest.is {
        shared.guest_is_gone(&name);
    }
}

struct Guest {
    line: Arc<Line>,
    shared: Arc<Shared>,
    requests: Arc<Requests>,
    is: Is,
}

/// The state of the handshake.
enum Is {
    Unknown {
        until: Instant,
    },
    Known {
        name: String,
        endpoint: Endpoint,
    },
    /// It sends envelopes of a service.
    Writes {
        name: String,
        service: Arc<dyn Service>,
    },
    Refused,
}

impl Guest {
    fn greet(&mut self, head: Head, message: &[u8]) -> Result<(), String> {
        match head.kind {
            ASK_STATUS => return self.answer_only(wire::carried(STATUS, &self.shared.status())),
            ASK_LOGS => {
                let logs = self.shared.logs();
                return self.answer_only(match logs {
                    Ok(logs) => wire::carried(LOGS, &logs),
                    Err(why) => wire::carried(REFUSED, &why),
                });
            }
            JOINS => {
                return self.answer_only(match self.shared.admit(message, &self.line) {
                    Ok(joined) => wire::carried(JOINED, &joined),
                    Err(why) => wire::carried(REFUSED, &why),
                });
            }
            ASK_RUN => return self.answer_only(wire::carried(RUN, &self.shared.run())),
            RESTART | LEAVES => {
                let done = match head.kind {
                    RESTART => self.shared.restart(message),
                    _ => self.shared.note_leaving(message, &self.line),
                };
                return self.answer_only(match done {
                    Ok(()) => wire::carried(RUN, &self.shared.run()),
                    Err(why) => wire::carried(REFUSED, &why),
                });
            }
            INTRODUCTION => {
                let name = introduced(message)?;
                return match self.shared.introduce(&name, &self.line) {
                    Ok(service) => {
                        self.is = Is::Writes { name, service };
                        Ok(())
                    }
                    Err(why) => self.answer_only(wire::carried(REFUSED, &why)),
                };
            }
            _ => {}
        }
        let theirs = Hello::read(HELLO, message);
        let welcomed = theirs.map_err(|bad| bad.to_string());
        let welcomed = welcomed.and_then(|theirs| {
            let endpoint = self.shared.welcome(&theirs, &self.line)?;
            Ok(Is::Known { name: theirs.name, endpoint })
        });
        match welcomed {
            Ok(known) => {
                self.is = known;
                let welcome = self.shared.hello().write(WELCOME);
                self.line.send(welcome).map_err(|_| "it has gone".to_owned())
            }
            Err(why) => {
                self.line.send_last(wire::carried(REFUSED, &why));
                self.is = Is::Refused;
                Ok(())
            }
        }
    }

    /// Sends a last message.
    fn answer_only(&mut self, answer: Vec<u8>) -> Result<(), String> {
        self.line.send_last(answer);
        self.is = Is::Refused;
        Ok(())
    }

    fn request(&self, endpoint: &Endpoint, head: Head, request: Vec<u8>) {
        let (requests, line, number) = (self.requests.clone(), self.line.clone(), head.number);
        let token = requests.begin(number);
        let under_way = UnderWay { requests, line, number, is_answered: false };
        // Requests that end transactions get a thread even if requests that begin them do not.
        let reserve = if CLIENTS.contains(&head.kind) { self.shared.reserve() } else { 0 };
        let slot = Arc::new(Mutex::new(Some(under_way)));
        let (taken, endpoint) = (slot.clone(), endpoint.clone());
        let job = move || {
            let Some(under_way) = taken.lock().take() else { return };
            let line = under_way.line.clone();
            let early = move |mut early: Vec<u8>| {
                wire::set_number(&mut early, number);
                // The answer has the time as well.
                let _ = line.send(early);
            };
            let answer = match head.kind {
                ToGateway::KIND => Some(endpoint.run(&request, &token, early)),
                _ => endpoint.serve(&request, &token, early),
            };
            under_way.answer(answer);
        };
        if !self.shared.pool.run(Box::new(job), reserve)
            && let Some(under_way) = slot.lock().take()
        {
            let why = "too many requests are under way in its process; try again later";
            under_way.answer(Some(wire::not_understood(why)));
        }
    }
}

impl Takes for Guest {
    fn longest(&self) -> usize {
        match self.is {
            Is::Known { .. } | Is::Writes { .. } => usize::MAX,
            Is::Unknown { .. } | Is::Refused => HELLO_BYTES_MAX,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self.is {
            Is::Unknown { until } => Some(until),
            Is::Known { .. } | Is::Writes { .. } | Is::Refused => None,
        }
    }

    fn take(&mut self, head: Head, message: Vec<u8>) -> Result<(), String> {
        match &self.is {
            Is::Unknown { .. } => self.greet(head, &message),
            Is::Refused => Ok(()),
            Is::Writes { name, service } if head.kind == ENVELOPE => {
                service.receive(name, envelope(&message)?);
                Ok(())
            }
            Is::Writes { .. } => {
                Err(format!("a message of kind {}, where an envelope is expected", head.kind))
            }
            Is::Known { endpoint, .. } if REQUESTS.contains(&head.kind) => {
                self.request(&endpoint.clone(), head, message);
                Ok(())
            }
            Is::Known { endpoint, .. } if head.kind == MESSAGE => {
                endpoint.receive(&message).map_err(|bad| bad.to_string())
            }
            Is::Known { .. } => {
                Err(format!("a message of kind {}, where a request is expected", head.kind))
            }
        }
    }
}
