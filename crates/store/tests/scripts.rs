//! Runs the golden scripts in `scripts/`: stories of readers, writers and collectors at one site,
//! step by step. `UPDATE_GOLDENFILES=1 cargo test -p isomer-store` rewrites the answers.
//!
//! ```text
//!   partition left 0 100           a partition, mastered here, of the keys from 0 up to 100
//!   replica right 100 200          as above, but a replica, complete up to @1
//!   now 40                         real time, which the next commit takes if it is ahead
//!   commit 1=a 2=b 3=none          a transaction of one step; `none` deletes
//!   update 1 times=5000            this many commits to one key
//!   w: mark left right             a commit in steps: the partitions are marked, ...
//!   w: time                        ... a time is taken, ...
//!   w: install 1=a                 ... rows are installed, ...
//!   w: publish                     ... and the marks go down
//!   r: look left right [after=40]  chooses a snapshot, not before a time
//!   r: get 1 2, r: scan            reads
//!   r: end                         ends the snapshot
//!   close 50                       the feed of the replicas is complete up to @50
//!   arrive right, refresh right 101=x at=45     an event arrives and waits; it is installed
//!   follow left 60, lead left      changes of mastership: complete up to @60; for ever
//!   a: lock left, a: unlock left
//!   collect                        the writer of commits collects its garbage
//!   chains 1 2                     all versions that are linked; `…` where the last link dangles
//!   keys, floor, garbage
//! ```
//!
//! An answer begins with the client's name. A wake-up of a client is printed: `r is woken`.
#![cfg(all(debug_assertions, not(feature = "shuttle")))]
#![allow(unsafe_code)]

use goldenscript::{ArgumentConsumer, Command, Context as Block};
use isomer_design::{Key, KeyRange, TableId, Time};
use isomer_store::{Context, Feed, Index, NotYet, Partition, Stamp, Store, Turn, pin};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Wake, Waker};

type Answer = Result<String, Box<dyn Error>>;
/// Keys and their new values; `None` deletes.
type Writes = Vec<(u64, Option<String>)>;

/// Stores live as long as the process, so that contexts can borrow them.
struct Runner {
    store: &'static Store,
    index: Arc<Index>,
    partitions: BTreeMap<String, Partition>,
    /// Clients that wait for a partition's lock.
    turns: BTreeMap<(String, String), Turn>,
    feed: Arc<Feed>,
    now: Time,
    writer: Context<'static>,
    clients: BTreeMap<String, Client>,
    woken: Arc<Mutex<BTreeSet<String>>>,
}

/// A client that reads, or commits step by step.
struct Client {
    context: Context<'static>,
    marked: Vec<String>,
    time: Time,
}

/// Records which client is woken.
struct Alarm {
    client: String,
    woken: Arc<Mutex<BTreeSet<String>>>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Alarm>) {
        self.woken.lock().insert(self.client.clone());
    }
}

#[test]
fn scripts() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        println!("script {}", path.display());
        goldenscript::run(&mut Runner::new(), &path).unwrap();
    }
}

impl goldenscript::Runner for Runner {
    type Command = Command;

    fn run(&mut self, command: &Command, block: &Block) -> Answer {
        let args = &mut command.consume_args();
        let client = block.prefix.clone().unwrap_or_default();
        match command.name.as_str() {
            "partition" | "replica" => self.partition(&command.name, args),
            "now" => {
                self.now = Time(number(args)?);
                Ok(String::new())
            }
            "commit" => self.commit(args),
            "update" => self.update(args),
            "mark" => self.mark(&client, args),
            "time" => Ok(self.take_time(&client)),
            "install" => self.install_some(&client, args),
            "publish" => Ok(self.publish(&client)),
            "look" => self.look(&client, args),
            "get" => self.get(&client, args),
            "scan" => Ok(self.scan(&client)),
            "end" => {
                self.clients.remove(&client);
                Ok(String::new())
            }
            "close" => {
                self.feed.close(Time(number(args)?));
                Ok(String::new())
            }
            "arrive" | "refresh" | "follow" | "lead" | "lock" | "leave" | "unlock" => {
                self.at_partition(&command.name, &client, args)
            }
            "collect" => Ok(self.collect()),
            "chains" => self.chains(args),
            "keys" => Ok(self.keys()),
            "floor" => Ok(format!("floor {}", at(self.store.floor()))),
            other => Err(format!("no such command: {other}").into()),
        }
    }

    fn end_command(&mut self, _: &Command, _: &Block) -> Answer {
        let woken = std::mem::take(&mut *self.woken.lock());
        Ok(woken.iter().map(|client| format!("{client} is woken\n")).collect())
    }
}

impl Runner {
    fn new() -> Runner {
        let store: &'static Store = Box::leak(Box::new(Store::new(Time(1))));
        Runner {
            index: store.new_table(),
            partitions: BTreeMap::new(),
            turns: BTreeMap::new(),
            feed: Arc::new(Feed::default()),
            now: Time::ZERO,
            writer: store.context().unwrap(),
            clients: BTreeMap::new(),
            woken: Arc::default(),
            store,
        }
    }

    fn partition(&mut self, kind: &str, args: &mut ArgumentConsumer<'_>) -> Answer {
        let name = word(args)?;
        let range = KeyRange::ints(number(args)? as i64, number(args)? as i64);
        let stamp = Stamp { version: 1, last: Time(1) };
        let partition = Partition::new(TableId(1), range, stamp, Time::MAX, Time::ZERO);
        if kind == "replica" {
            partition.follow(Time(1), Some(self.feed.clone()));
        }
        self.partitions.insert(name, partition);
        Ok(String::new())
    }

    fn client(&mut self, name: &str) -> &mut Client {
        let context = || self.store.context().unwrap();
        let client = || Client { context: context(), marked: Vec::new(), time: Time::ZERO };
        self.clients.entry(name.to_owned()).or_insert_with(client)
    }

    fn waker(&self, client: &str) -> Waker {
        let alarm = Alarm { client: client.to_owned(), woken: self.woken.clone() };
        Waker::from(Arc::new(alarm))
    }

    fn name_of(&self, key: u64) -> Result<String, String> {
        let covers = |(_, p): &(&String, &Partition)| p.range.contains(&Key::int(key as i64));
        let found = self.partitions.iter().find(covers);
        found.map(|(name, _)| name.clone()).ok_or_else(|| format!("no partition covers {key}"))
    }

    fn commit(&mut self, args: &mut ArgumentConsumer<'_>) -> Answer {
        let writes = writes(args)?;
        let names: BTreeSet<String> =
            writes.iter().map(|(key, _)| self.name_of(*key)).collect::<Result<_, _>>()?;
        let partitions: Vec<_> = names.iter().map(|name| &self.partitions[name]).collect();
        partitions.iter().for_each(|partition| partition.begin_publishing());
        let time = self.store.clock.tick(self.now);
        self.writer.hold();
        install(&self.index, &self.writer, &writes, time);
        for partition in partitions {
            partition.end_publishing(partition.version() + 1, time);
        }
        self.writer.unpin();
        Ok(format!("committed {}", at(time)))
    }

    fn update(&mut self, args: &mut ArgumentConsumer<'_>) -> Answer {
        let key = number(args)?;
        let times: u64 = args.take_key("times").unwrap_or("1").parse()?;
        let name = self.name_of(key)?;
        let (partition, mut time) = (&self.partitions[&name], Time::ZERO);
        for value in 1..=times {
            partition.begin_publishing();
            time = self.store.clock.tick(self.now);
            self.writer.hold();
            install(&self.index, &self.writer, &[(key, Some(value.to_string()))], time);
            self.writer.unpin();
            partition.end_publishing(partition.version() + 1, time);
            self.writer.collect_some();
        }
        Ok(format!("committed, the last {}", at(time)))
    }

    fn mark(&mut self, client: &str, args: &mut ArgumentConsumer<'_>) -> Answer {
        let names = words(args);
        for name in &names {
            self.named(name)?.begin_publishing();
        }
        let client = self.client(client);
        client.context.hold();
        client.marked = names;
        Ok(String::new())
    }

    fn take_time(&mut self, client: &str) -> String {
        let time = self.store.clock.tick(self.now);
        self.client(client).time = time;
        format!("commits {}", at(time))
    }

    fn install_some(&mut self, client: &str, args: &mut ArgumentConsumer<'_>) -> Answer {
        let (writes, index) = (writes(args)?, self.index.clone());
        let client = self.client(client);
        install(&index, &client.context, &writes, client.time);
        Ok(String::new())
    }

    fn publish(&mut self, client: &str) -> String {
        let Client { marked, time, context } = self.clients.remove(client).expect("it has begun");
        for name in marked {
            let partition = &self.partitions[&name];
            partition.end_publishing(partition.version() + 1, time);
        }
        drop(context);
        String::new()
    }

    fn look(&mut self, client: &str, args: &mut ArgumentConsumer<'_>) -> Answer {
        let at_least = Time(args.take_key("after").unwrap_or("0").parse()?);
        let (names, waker) = (words(args), self.waker(client));
        self.client(client);
        let reader = self.clients.get_mut(client).expect("just made");
        let partitions = names.iter().map(|name| &self.partitions[name]);
        let complete: Vec<Time> = partitions.clone().map(Partition::safe_time).collect();
        Ok(match reader.context.snapshot(partitions, at_least, &waker) {
            Ok(time) => format!("looks {}", at(time)),
            Err(NotYet::Publishing(of)) => {
                format!("waits: {} is publishing a commit", names[of])
            }
            Err(NotYet::Behind(of, time)) => {
                let (name, complete) = (&names[of], at(complete[of]));
                format!("waits for {}: {name} is complete up to {complete} only", at(time))
            }
        })
    }

    fn get(&mut self, client: &str, args: &mut ArgumentConsumer<'_>) -> Answer {
        let (keys, index) = (words(args), self.index.clone());
        let context = &self.client(client).context;
        let mut answers = Vec::new();
        for key in keys {
            let row = context.get(&index, &Key::int(key.parse()?));
            answers.push(match row {
                Some(row) => format!("{key}={} from {}", text(row.value()), at(row.time())),
                None => format!("{key} is not there"),
            });
        }
        Ok(format!("sees {}", answers.join(", ")))
    }

    fn scan(&mut self, client: &str) -> String {
        let index = self.index.clone();
        let mut seen = Vec::new();
        self.client(client).context.scan(&index, &KeyRange::all(), |row| {
            seen.push(format!("{}={}", Key::from_bytes(row.key()), text(row.value())));
            ControlFlow::Continue(())
        });
        format!("sees {}", seen.join(", "))
    }

    fn at_partition(
        &mut self,
        what: &str,
        client: &str,
        args: &mut ArgumentConsumer<'_>,
    ) -> Answer {
        let name = word(args)?;
        let (waker, feed) = (self.waker(client), self.feed.clone());
        match what {
            "arrive" => self.named(&name)?.set_lagging(true),
            "refresh" => {
                let time = Time(args.take_key("at").ok_or("refresh needs at=")?.parse()?);
                self.refresh(&name, &writes(args)?, time)?;
            }
            "follow" => self.named(&name)?.follow(Time(number(args)?), Some(feed)),
            "lead" => self.named(&name)?.become_master(),
            "unlock" => self.named(&name)?.lock.unlock(),
            _ => {
                let place = (client.to_owned(), name.clone());
                let mut turn = self.turns.remove(&place).unwrap_or_default();
                let lock = &self.named(&name)?.lock;
                if what == "leave" {
                    lock.leave(&mut turn);
                } else if lock.try_lock(&mut turn, &waker) {
                    return Ok(format!("has {name}"));
                } else {
                    self.turns.insert(place, turn);
                    return Ok(format!("waits: {name} is locked"));
                }
            }
        }
        Ok(String::new())
    }

    fn refresh(
        &mut self,
        name: &str,
        writes: &[(u64, Option<String>)],
        time: Time,
    ) -> Result<(), Box<dyn Error>> {
        self.store.clock.raise(time);
        let partition = self.partitions.get(name).ok_or("no such partition")?;
        partition.begin_publishing();
        self.writer.hold();
        install(&self.index, &self.writer, writes, time);
        self.writer.unpin();
        partition.end_publishing(partition.version() + 1, time);
        partition.set_lagging(false);
        Ok(())
    }

    fn named(&self, name: &str) -> Result<&Partition, String> {
        self.partitions.get(name).ok_or_else(|| format!("no partition is called {name}"))
    }

    fn collect(&mut self) -> String {
        let before = self.writer.garbage_len();
        self.writer.collect();
        let after = self.writer.garbage_len();
        format!("{} collected, {after} held up, floor {}", before - after, at(self.store.floor()))
    }

    fn chains(&mut self, args: &mut ArgumentConsumer<'_>) -> Answer {
        let mut answer = String::new();
        self.writer.hold();
        for key in words(args) {
            let encoded = Key::int(key.parse()?);
            // SAFETY: one thread, small rows, and this file is for builds with assertions.
            let (times, dangles) = unsafe { self.writer.chain(&self.index, &encoded) };
            let mut shown: Vec<String> = times.iter().map(|time| time.0.to_string()).collect();
            if shown.len() > 6 {
                let hidden = format!("({} more)", shown.len() - 4);
                shown.splice(2..shown.len() - 2, [hidden]);
            }
            if times.is_empty() {
                shown.push("gone".to_owned());
            }
            if dangles {
                shown.push("…".to_owned());
            }
            writeln!(answer, "{key}: {}", shown.join(" -> "))?;
        }
        self.writer.unpin();
        Ok(answer)
    }

    fn keys(&mut self) -> String {
        let mut keys = Vec::new();
        self.writer.hold();
        self.writer.scan_newest(&self.index, &KeyRange::all(), |row| {
            let deleted = if row.value().is_none() { " (deleted)" } else { "" };
            keys.push(format!("{}{deleted}", Key::from_bytes(row.key())));
            ControlFlow::Continue(())
        });
        self.writer.unpin();
        format!("in the index: {}", keys.join(", "))
    }
}

fn install(
    index: &Arc<Index>,
    context: &Context<'_>,
    writes: &[(u64, Option<String>)],
    time: Time,
) {
    for (key, value) in writes {
        let (guard, key) = (pin(), Key::int(*key as i64));
        let mut spot = index.spot(&key, &guard);
        let value = value.as_ref().map(String::as_bytes);
        context.install(index, &mut spot, &key, value, time, &guard);
    }
}

/// `1=a 2=none`: values, and deletions.
fn writes(args: &mut ArgumentConsumer<'_>) -> Result<Writes, Box<dyn Error>> {
    let mut writes = Vec::new();
    while let Some((key, value)) = args.next_key() {
        writes.push((key.parse()?, (value != "none").then(|| value.to_owned())));
    }
    Ok(writes)
}

fn words(args: &mut ArgumentConsumer<'_>) -> Vec<String> {
    std::iter::from_fn(|| args.next_pos().map(str::to_owned)).collect()
}

fn word(args: &mut ArgumentConsumer<'_>) -> Result<String, Box<dyn Error>> {
    Ok(args.next_pos().ok_or("a word is missing")?.to_owned())
}

fn number(args: &mut ArgumentConsumer<'_>) -> Result<u64, Box<dyn Error>> {
    Ok(word(args)?.parse()?)
}

fn text(value: Option<&[u8]>) -> String {
    String::from_utf8_lossy(value.unwrap_or(b"none")).into_owned()
}

fn at(time: Time) -> String {
    format!("@{}", time.0)
}
