//! Scripts of a log and its disk, in `crates/log/scripts`.
//!
//! A frame takes 24 bytes more than its text, so `append 12345678` moves the end by 0x20.

use super::disk::{Disk, Fault};
use crate::file::format::SEGMENT_HEADER_BYTES;
use crate::file::watermark::WATERMARK_NAME;
use crate::{Durability, FileLog, Log, Options, Position};
use std::error::Error;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Wake, Waker};

#[derive(goldenscript::Command)]
enum Command {
    /// Opens the log. Example: open segment=256 durability=none
    Open {
        #[arg(key)]
        segment: Option<u64>,
        #[arg(key)]
        backlog: Option<u64>,
        #[arg(key)]
        durability: Option<String>,
        #[arg(key)]
        accept_loss: Option<bool>,
    },
    /// Drops the log without a sync.
    Drop,
    /// Appends one frame per text. `x-200` stands for 200 times x.
    Append(Vec<String>),
    Sync,
    /// Prints positions and counters, and whether there is work for the flusher.
    Status,
    /// Waits until a position is durable. A later command prints when the wait is woken.
    Wait(At),
    /// Waits for work for the flusher.
    WaitWork,
    /// Reads the frames from a position on, all of them or up to `limit`.
    Read {
        from: Option<At>,
        #[arg(key)]
        limit: Option<usize>,
    },
    Truncate(At),
    /// Lists the files except for the watermark, with their used bytes and their lengths.
    Files,
    /// Makes the disk refuse one kind of call from now on: full, no_room, write, sync, remove,
    /// read, or none. With `after=N`, N more of these calls succeed first.
    Fault {
        name: String,
        #[arg(key)]
        after: Option<usize>,
    },
    /// Kills the process. All its writes are still there.
    Kill,
    /// Cuts the power. Of the unsynced bytes, the first `keep` survive, and with `lose=N` all but
    /// the first N.
    PowerCut {
        #[arg(key)]
        keep: Option<usize>,
        #[arg(key)]
        lose: Option<usize>,
    },
    /// Changes a byte of a file.
    Flip {
        name: String,
        offset: usize,
    },
    /// Overwrites bytes of a file with zeros.
    Zero {
        name: String,
        offset: usize,
        count: usize,
    },
    /// Cuts a file short.
    Cut {
        name: String,
        bytes: usize,
    },
    /// Removes a file.
    Remove(String),
    /// Creates or replaces a file.
    Put {
        name: String,
        text: String,
    },
}

/// A position, in the notation of the output.
struct At(Position);

impl FromStr for At {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<At, Self::Err> {
        Position::from_str_radix(text.trim_start_matches("0x"), 16).map(At)
    }
}

#[derive(Default)]
struct Runner {
    disk: Disk,
    log: Option<FileLog>,
    waits: Vec<(String, Arc<Woken>)>,
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Woken>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Runner {
    fn log(&self) -> Result<&FileLog, Box<dyn Error>> {
        self.log.as_ref().ok_or_else(|| "no log is open".into())
    }

    fn open(&mut self, options: Options) -> Result<String, Box<dyn Error>> {
        let (log, report) = FileLog::open_folder(Box::new(self.disk.clone()), options)?;
        let mut out =
            format!("open {:#x}..{:#x}, {} segments\n", report.begin, report.end, report.segments);
        if let Some(torn) = report.torn {
            writeln!(out, "{torn}")?;
        }
        if let Some(lost) = report.lost {
            writeln!(out, "lost: {lost}")?;
        }
        self.log = Some(log);
        Ok(out)
    }

    /// Registers a wait, and prints its state.
    fn wait(
        &mut self,
        name: String,
        poll: impl FnOnce(&FileLog, &Waker) -> Poll<Result<(), crate::LogError>>,
    ) -> Result<String, Box<dyn Error>> {
        let woken = Arc::new(Woken::default());
        let result = poll(self.log()?, &Waker::from(woken.clone()));
        Ok(match result {
            Poll::Ready(result) => {
                result?;
                format!("{name}: ready\n")
            }
            Poll::Pending => {
                let out = format!("{name}: pending\n");
                self.waits.push((name, woken));
                out
            }
        })
    }

    fn status(&self) -> Result<String, Box<dyn Error>> {
        let log = self.log()?;
        let counters = log.counters();
        Ok(format!(
            "begin {:#x} durable {:#x} end {:#x}, {} frames, {} bytes, {} syncs\n",
            log.begin(),
            log.durable(),
            log.end(),
            counters.frames,
            counters.bytes,
            counters.syncs
        ))
    }

    fn read(&self, from: Position, limit: usize) -> Result<String, Box<dyn Error>> {
        let mut out = String::new();
        let mut left = limit;
        let result = self.log()?.read(from, &mut |position, payload| {
            let _ = writeln!(out, "{position:#x} {}", show(payload));
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match result {
            Ok(next) => writeln!(out, "next {next:#x}")?,
            Err(error) => writeln!(out, "Error: {error}")?,
        }
        Ok(out)
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Result<(), Box<dyn Error>> {
        let mut bytes = self.disk.files().remove(name).ok_or("no such file")?;
        change(&mut bytes);
        self.disk.put(name, bytes);
        Ok(())
    }

    fn files(&self) -> String {
        let used = |bytes: &[u8]| bytes.iter().rposition(|&byte| byte != 0).map_or(0, |i| i + 1);
        let show = |(name, bytes): (String, Vec<u8>)| {
            format!("{name} {} of {}\n", used(&bytes), bytes.len())
        };
        let files = self.disk.files().into_iter();
        files.filter(|(name, _)| name != WATERMARK_NAME).map(show).collect()
    }

    fn crash(&mut self, after: Disk) {
        self.log = None;
        self.waits.clear();
        self.disk = after;
    }
}

/// A payload in the notation of the scripts.
fn show(payload: &[u8]) -> String {
    let text = String::from_utf8_lossy(payload);
    match text.chars().next() {
        Some(first) if text.len() > 16 => format!("{first}-{}", text.len()),
        _ => text.into_owned(),
    }
}

/// The bytes that a power cut leaves of a file. Of the range from the first unstored byte on, the
/// first `keep` survive, and those after the first `lose`.
fn cut(cache: &[u8], stored: &[u8], keep: usize, lose: usize) -> Vec<u8> {
    let mut left = stored.to_vec();
    left.resize(cache.len(), 0);
    let first = (0..cache.len()).find(|&i| left[i] != cache[i]).unwrap_or(cache.len());
    let kept = first.saturating_add(keep).min(cache.len());
    left[first..kept].copy_from_slice(&cache[first..kept]);
    let from = first.saturating_add(lose).min(cache.len());
    left[from..].copy_from_slice(&cache[from..]);
    left
}

impl goldenscript::Runner for Runner {
    type Command = Command;

    fn run(
        &mut self,
        command: &Command,
        _context: &goldenscript::Context,
    ) -> Result<String, Box<dyn Error>> {
        match command {
            Command::Open { segment, backlog, durability, accept_loss } => {
                let durability = match durability.as_deref() {
                    None | Some("commit") => Durability::Commit,
                    Some("none") => Durability::None,
                    Some(other) => return Err(format!("no durability {other}").into()),
                };
                let segment_bytes = segment.unwrap_or(256);
                let backlog_bytes = backlog.unwrap_or(1 << 20);
                let usual =
                    Options { accept_loss: accept_loss.unwrap_or(false), ..Options::default() };
                return self.open(Options { segment_bytes, backlog_bytes, durability, ..usual });
            }
            Command::Drop => self.log = None,
            Command::Append(texts) => {
                let mut out = String::new();
                for text in texts {
                    let payload = match text.split_once('-') {
                        Some((text, count)) => text.repeat(count.parse()?),
                        None => text.clone(),
                    };
                    let end = self.log()?.append(payload.as_bytes())?;
                    write!(out, "{}{end:#x}", if out.is_empty() { "end " } else { " " })?;
                }
                return Ok(out + "\n");
            }
            Command::Sync => return Ok(format!("durable {:#x}\n", self.log()?.sync()?)),
            Command::Status => return self.status(),
            Command::Wait(At(position)) => {
                let name = format!("wait {position:#x}");
                return self.wait(name, |log, waker| log.poll_durable(*position, waker));
            }
            Command::WaitWork => {
                return self.wait("wait for work".to_owned(), |log, waker| log.poll_work(waker));
            }
            Command::Read { from, limit } => {
                let from = from.as_ref().map_or(self.log()?.begin(), |at| at.0);
                return self.read(from, limit.unwrap_or(usize::MAX));
            }
            Command::Truncate(At(position)) => {
                self.log()?.truncate_before(*position)?;
                return Ok(format!("begin {:#x}\n", self.log()?.begin()));
            }
            Command::Files => return Ok(self.files()),
            Command::Fault { name, after } => {
                let fault = match name.as_str() {
                    "full" => Fault::Full,
                    "no_room" => Fault::NoRoom,
                    "write" => Fault::Write,
                    "sync" => Fault::Sync,
                    "remove" => Fault::Remove,
                    "read" => Fault::Read,
                    "none" => Fault::None,
                    other => return Err(format!("no fault {other}").into()),
                };
                self.disk.set_fault_after(after.unwrap_or(0), fault);
            }
            Command::Kill => self.crash(self.disk.after_kill()),
            Command::PowerCut { keep, lose } => {
                let (keep, lose) = (keep.unwrap_or(0), lose.unwrap_or(usize::MAX));
                let mut left = |cache: &[u8], stored: &[u8]| cut(cache, stored, keep, lose);
                self.crash(self.disk.after_crash(&mut left, usize::MAX));
            }
            Command::Flip { name, offset } => self.change(name, |bytes| bytes[*offset] ^= 0x40)?,
            Command::Zero { name, offset, count } => {
                self.change(name, |bytes| bytes[*offset..offset + count].fill(0))?;
            }
            Command::Cut { name, bytes: length } => {
                self.change(name, |bytes| bytes.truncate(*length))?;
            }
            Command::Remove(name) => self.disk.take(name),
            Command::Put { name, text } => self.disk.put(name, text.clone().into_bytes()),
        }
        Ok(String::new())
    }

    /// Prints which waits were woken, and checks the invariants.
    fn end_command(
        &mut self,
        _command: &Command,
        _context: &goldenscript::Context,
    ) -> Result<String, Box<dyn Error>> {
        if let Some(log) = &self.log {
            assert!(log.begin() <= log.durable() && log.durable() <= log.end());
        }
        let mut out = String::new();
        self.waits.retain(|(name, woken)| {
            let woken = woken.0.load(Ordering::Relaxed);
            if woken {
                let _ = writeln!(out, "{name}: woken");
            }
            !woken
        });
        Ok(out)
    }
}

#[test]
fn scripts() -> std::io::Result<()> {
    assert_eq!(SEGMENT_HEADER_BYTES, 32, "the scripts assume it");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts");
    let mut paths: Vec<_> = std::fs::read_dir(folder)?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    assert!(!paths.is_empty());
    paths.iter().try_for_each(|path| goldenscript::run(&mut Runner::default(), path))
}
