//! Ratings of films (MovieTweetings), served over the PostgreSQL protocol, and clients that use
//! them. `isomer demo --scenario reshard` and `isomer-lab bench reshard` change the shard key of
//! the table.
//!
//! ```text
//!   ratings(movie, viewer, rating)       primary key (movie, viewer)
//!                                        partitions by movie, one at each site
//!
//!   read     three ratings of one viewer     40 of 100
//!   update   two ratings of one viewer       40 of 100   mostly at two sites if sharded by movie
//!   insert   a rating of another film        20 of 100
//! ```
//!
//! A client draws a rating ([`Keys`]) and uses its viewer, so viewers with many ratings are busy.
//! Each client has a session of its own over a loopback socket, and notes each request: its begin,
//! its duration, and its success.
//!
//! Transactions over several sites use two-phase commit, and no change of the design follows them.
//! So the figures show the effect of the shard key, and not what an autopilot makes of a wrong one.

use crate::clock;
use crate::failure::Failure;
use isomer_cluster::Options;
use isomer_design::SiteId;
use isomer_plan::elastic::Options as Elasticity;
use isomer_plan::learned::Mode;
use isomer_server::{Decider, Engine, Server, ServerOptions, Trust};
use isomer_workload::{Chooser, Random, Skew};
use parking_lot::Mutex;
use postgres::{Client, NoTls, Statement};
use rand::RngExt;
use ruzstd::decoding::StreamingDecoder;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// 100,000 ratings, see `data/README.md`.
const EMBEDDED: &[u8] = include_bytes!("../../../../data/movietweetings_ratings.csv.zst");
/// Added to the viewers of each further copy of the ratings, so that copies differ in viewers only.
const VIEWERS: i32 = 1_000_000;
/// Reads and updates of 100 requests; the others insert.
const READS: u32 = 40;
const UPDATES: u32 = 40;
/// The skew of the choice of ratings (Morphus, section 5.1).
const ALPHA: f64 = 1.5;
/// A prime that scatters ratings of neighbouring ranks.
const SCATTER: usize = 7_919_777;

/// A rating: its viewer, its film, and its value.
#[derive(Clone, Copy)]
struct Rating {
    viewer: i32,
    movie: i32,
    rating: i32,
}

/// A request as its client saw it.
#[derive(Clone, Copy)]
pub struct Request {
    pub at: Duration,
    pub took: Duration,
    pub is_read: bool,
    pub is_ok: bool,
}

/// The distribution of the ratings that requests use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys {
    /// Uniform.
    Uniform,
    /// A Zipf distribution over scattered ratings.
    Zipf,
    /// A Zipf distribution over the newest ratings; inserts are by uniformly drawn viewers.
    Latest,
}

/// The load of the clients.
#[derive(Clone, Copy)]
pub struct Work {
    pub clients: u16,
    pub seed: u64,
    pub keys: Keys,
    /// The pause between two requests of a client; `None` for a closed loop.
    pub every: Option<Duration>,
}

/// The server with the ratings.
pub struct Ratings {
    pub engine: Arc<Engine>,
    server: Server,
    #[cfg(feature = "console")]
    console: Option<isomer_console::Console>,
    /// The initial ratings, ordered by viewer.
    all: Vec<Rating>,
    films: Vec<i32>,
    /// Ratings that clients added, for [`Keys::Latest`].
    added: Mutex<Vec<Rating>>,
}

impl Ratings {
    /// Serves `copies` copies of the ratings from `sites` sites.
    pub fn serve(sites: u16, copies: u16) -> Result<Ratings, Failure> {
        let decider = Decider::named("clay", Elasticity::default()).map_err(Failure::failed)?;
        let engine = Engine::open(Options::in_memory(sites), decider, Some(Mode::Auto));
        let engine = engine.map_err(|error| Failure::failed(error.message))?;
        let listen = "127.0.0.1:0".parse().map_err(Failure::failed)?;
        let options = ServerOptions {
            trust: Trust::Loopback,
            ..ServerOptions::new(listen, clock::now_us, clock::random)
        };
        let server = Server::start(engine.clone(), options).map_err(Failure::failed)?;
        let once = read()?;
        let other = |copy: i32| {
            once.iter().map(move |one| Rating { viewer: one.viewer + copy * VIEWERS, ..*one })
        };
        let mut all: Vec<Rating> = (0..i32::from(copies)).flat_map(other).collect();
        all.sort_by_key(|one| (one.viewer, one.movie));
        let mut films: Vec<i32> = once.iter().map(|one| one.movie).collect();
        films.sort_unstable();
        let ratings = Ratings {
            engine,
            server,
            #[cfg(feature = "console")]
            console: None,
            all,
            films,
            added: Mutex::default(),
        };
        ratings.load(sites)?;
        Ok(ratings)
    }

    /// Opens the console at an address. Returns the link that logs in.
    ///
    /// # Errors
    /// If the address or a folder for the server's Unix socket cannot be used.
    pub fn open_console(&mut self, listen: std::net::SocketAddr) -> Result<String, Failure> {
        #[cfg(not(feature = "console"))]
        {
            let why = format!("{listen}: this program was built without the console");
            Err(Failure::usage(why))
        }
        #[cfg(feature = "console")]
        {
            use std::os::unix::fs::DirBuilderExt;
            let folder = format!("isomer-demo-{}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            let made = std::fs::DirBuilder::new().mode(0o700).create(&folder);
            made.map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))?;
            self.server.listen_in(&folder).map_err(Failure::failed)?;
            let (engine, asked) = (self.engine.clone(), self.engine.clone());
            let console = isomer_console::Console::start(isomer_console::ConsoleOptions {
                listen,
                tls: None,
                server: self.server.address(),
                socket: Some(folder),
                figures: Arc::new(move || engine.figures()),
                trouble: Arc::new(|| None),
                loads: Arc::new(move || asked.loads()),
                clock: clock::now_us,
                random: clock::random,
            });
            let console =
                console.map_err(|error| Failure::failed(format!("--console {listen}: {error}")))?;
            let link = console.link();
            self.console = Some(console);
            Ok(link)
        }
    }

    /// The film and the viewer of each initial rating.
    pub fn keys(&self) -> impl Iterator<Item = (i64, i64)> {
        self.all.iter().map(|one| (i64::from(one.movie), i64::from(one.viewer)))
    }

    /// The number of initial ratings.
    pub fn rows(&self) -> usize {
        self.all.len()
    }

    /// Opens a connection.
    pub fn connect(&self) -> Result<Client, Failure> {
        let port = self.server.address().port();
        let config = format!("host=127.0.0.1 port={port} user=isomer dbname=ratings");
        Client::connect(&config, NoTls).map_err(|error| Failure::of_server("connecting", &error))
    }

    fn load(&self, sites: u16) -> Result<(), Failure> {
        let mut client = self.connect()?;
        let failed = |error| Failure::of_server("loading", &error);
        client
            .batch_execute(
                "create table ratings (movie int, viewer int, rating int not null, primary key (movie, viewer))",
            )
            .map_err(failed)?;
        // A partition for each site, with about as many ratings.
        for site in 2..=sites {
            let at = self.films[usize::from(site - 1) * self.films.len() / usize::from(sites)];
            let split = format!("alter table ratings split at ({at})");
            let moved = format!("alter table ratings remaster at ({at}) to site {site}");
            client
                .batch_execute(&split)
                .and_then(|()| client.batch_execute(&moved))
                .map_err(failed)?;
        }
        for part in self.all.chunks(10_000) {
            let mut text = String::new();
            for Rating { viewer, movie, rating } in part {
                let _ = writeln!(text, "{movie}\t{viewer}\t{rating}");
            }
            let mut copy = client.copy_in("copy ratings from stdin").map_err(failed)?;
            copy.write_all(text.as_bytes()).map_err(Failure::failed)?;
            copy.finish().map_err(failed)?;
        }
        Ok(())
    }

    /// The numbers of transactions that committed at one site, and over several sites.
    pub fn commits(&self) -> [u64; 2] {
        let design = self.engine.database().design();
        let of = |site: SiteId| self.engine.gateway().commits(site);
        design.sites().iter().map(of).fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
    }

    /// Memory of the rows and indexes of all sites, in bytes.
    pub fn memory_bytes(&self, client: &mut Client) -> Result<i64, Failure> {
        let query = "select sum(memory_bytes)::bigint from isomer.sites";
        let row = client.query_one(query, &[]);
        row.map(|row| row.get(0)).map_err(|error| Failure::of_server(query, &error))
    }

    /// Lets clients work while `meanwhile` runs. Returns their requests, ordered by begin, and its
    /// result.
    pub fn use_while<T>(
        &self,
        work: Work,
        meanwhile: impl FnOnce(Instant) -> Result<T, Failure>,
    ) -> Result<(Vec<Request>, T), Failure> {
        let (begun, stop) = (clock::now(), AtomicBool::new(false));
        let clients = (0..work.clients).map(|number| self.client(work, number));
        let clients = clients.collect::<Result<Vec<_>, _>>()?;
        std::thread::scope(|scope| {
            let stop = &stop;
            let run = |client: User<'_>| client.run(begun, stop);
            let threads: Vec<_> =
                clients.into_iter().map(|client| scope.spawn(move || run(client))).collect();
            let came = meanwhile(begun);
            stop.store(true, Ordering::Relaxed);
            let noted = threads.into_iter().flat_map(|one| one.join().expect("no client panics"));
            let mut noted: Vec<Request> = noted.collect();
            noted.sort_by_key(|request| request.at);
            came.map(|came| (noted, came))
        })
    }

    fn client(&self, work: Work, number: u16) -> Result<User<'_>, Failure> {
        let mut client = self.connect()?;
        let mut prepare = |text: &str| {
            client.prepare(text).map_err(|error| Failure::of_server("preparing", &error))
        };
        let skew = match work.keys {
            Keys::Uniform => Skew::Uniform,
            Keys::Zipf | Keys::Latest => Skew::Zipf(ALPHA),
        };
        let chooser = Chooser::new(self.all.len() as u64, skew).map_err(Failure::failed)?;
        Ok(User {
            chooser,
            read: prepare(
                "select sum(rating) from ratings where viewer = $1 and movie in ($2, $3, $4)",
            )?,
            update: prepare(
                "update ratings set rating = $4 where viewer = $1 and movie in ($2, $3)",
            )?,
            insert: prepare(
                "insert into ratings values ($1, $2, $3) on conflict (movie, viewer) do update set rating = excluded.rating",
            )?,
            client,
            ratings: self,
            work,
            number,
        })
    }
}

/// A client at work.
struct User<'r> {
    client: Client,
    ratings: &'r Ratings,
    work: Work,
    number: u16,
    chooser: Chooser,
    read: Statement,
    update: Statement,
    insert: Statement,
}

impl User<'_> {
    fn run(mut self, begun: Instant, stop: &AtomicBool) -> Vec<Request> {
        let seed = self.work.seed.wrapping_mul(1000).wrapping_add(u64::from(self.number));
        let mut rng = isomer_workload::random(seed);
        let mut noted = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            if let Some(every) = self.work.every {
                // Clients have fixed turns; a late client sends no extra requests.
                let turn = every * noted.len() as u32
                    + every * u32::from(self.number) / u32::from(self.work.clients);
                clock::sleep(turn.saturating_sub(begun.elapsed()));
            }
            let kind = rng.random_range(0..100_u32);
            let chosen = self.choose(kind, &mut rng);
            let value = rng.random_range(0..=10_i32);
            let others = [(); 2].map(|()| rng.random_range(0..usize::from(u16::MAX)));
            let film = self.ratings.films[rng.random_range(0..self.ratings.films.len())];
            let at = begun.elapsed();
            let done = self.request(chosen, others, kind, value, film);
            let took = begun.elapsed() - at;
            noted.push(Request { at, took, is_read: kind < READS, is_ok: done.is_ok() });
            if done.is_err_and(|error| error.is_closed()) {
                return noted;
            }
        }
        noted
    }

    /// The rating that a request uses; an insert uses its viewer only.
    fn choose(&self, kind: u32, rng: &mut Random) -> Rating {
        let all = &self.ratings.all;
        let rank = self.chooser.choose(rng) as usize;
        match self.work.keys {
            Keys::Uniform => all[rank],
            // Hot ratings are scattered over all of them.
            Keys::Zipf => all[(rank * SCATTER + SCATTER) % all.len()],
            Keys::Latest if kind >= READS + UPDATES => all[rng.random_range(0..all.len())],
            Keys::Latest => {
                let added = self.ratings.added.lock();
                let newest = added.len().checked_sub(rank + 1).map(|at| added[at]);
                newest.unwrap_or_else(|| all[all.len() - 1 - (rank - added.len())])
            }
        }
    }

    fn request(
        &mut self,
        chosen: Rating,
        others: [usize; 2],
        kind: u32,
        value: i32,
        film: i32,
    ) -> Result<(), postgres::Error> {
        let (all, viewer, a) = (&self.ratings.all, chosen.viewer, chosen.movie);
        let (first, end) = (
            all.partition_point(|one| one.viewer < viewer),
            all.partition_point(|one| one.viewer <= viewer),
        );
        let [b, c] = others.map(|other| all[first + other % (end - first)].movie);
        if kind < READS {
            self.client.query_one(&self.read, &[&viewer, &a, &b, &c]).map(drop)
        } else if kind < READS + UPDATES {
            self.client.execute(&self.update, &[&viewer, &a, &b, &value]).map(drop)
        } else {
            let inserted = self.client.execute(&self.insert, &[&film, &viewer, &value]);
            if inserted.is_ok() && self.work.keys == Keys::Latest {
                self.ratings.added.lock().push(Rating { viewer, movie: film, rating: value });
            }
            inserted.map(drop)
        }
    }
}

/// The film and the viewer of each rating of one copy.
pub fn read_keys() -> Result<Vec<(i64, i64)>, Failure> {
    let keys = |one: &Rating| (i64::from(one.movie), i64::from(one.viewer));
    Ok(read()?.iter().map(keys).collect())
}

fn read() -> Result<Vec<Rating>, Failure> {
    let mut text = String::new();
    let mut unpacked = StreamingDecoder::new(EMBEDDED).map_err(Failure::failed)?;
    unpacked.read_to_string(&mut text).map_err(Failure::failed)?;
    let wrong = |line: &str| Failure::failed(format!("no rating: {line}"));
    let rating = |line: &str| {
        let mut fields = line.split(',').map(|field| field.parse::<i32>().ok());
        let mut next = || fields.next().flatten().ok_or_else(|| wrong(line));
        Ok(Rating { viewer: next()?, movie: next()?, rating: next()? })
    };
    text.lines().skip(1).map(rating).collect()
}

/// The latency at percentile `of_100`.
pub fn percentile(requests: &[Request], of_100: usize) -> Duration {
    let mut took: Vec<Duration> = requests.iter().map(|request| request.took).collect();
    took.sort_unstable();
    took.get((took.len() * of_100 / 100).min(took.len().saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}

/// The requests that began within a span of time. `requests` is ordered by begin.
pub fn within(requests: &[Request], from: Duration, to: Duration) -> &[Request] {
    let at = |time| requests.partition_point(|request| request.at < time);
    &requests[at(from)..at(to).max(at(from))]
}
