//! Twitter as in OLTP-Bench (Clay, section 8.5): users, follow relations, tweets.
//!
//! Of a hundred transactions 90 read a user's tweets, 6 insert a tweet, 3 read the names of a
//! user's followers, 1 reads the tweets of the users that a user follows. Lists are cut to ten,
//! drawn by Zipf over the sorted list. With a follow graph, users are drawn by the logarithm of
//! their degree; without one, a graph is generated.

use super::{GenerateError, Random, Touch, Workload, Zipf, at_least_one};
use rand::RngExt;
use rand::SeedableRng;

const ADDED_TWEETS: u8 = 0;
const FOLLOWERS: u8 = 1;
const FOLLOWS: u8 = 2;
const TWEETS: u8 = 3;
const USER_PROFILES: u8 = 4;
/// The longest list that is read.
const LIST: usize = 10;

/// The follow relations of users, who are numbered from 0.
#[derive(Clone, Debug, Default)]
pub struct FollowGraph {
    /// Per user: the users that it follows.
    follows: Vec<Vec<u32>>,
    /// Per user: its followers.
    followers: Vec<Vec<u32>>,
}

impl FollowGraph {
    /// From pairs (follower, followed) with any numbers; self-loops and repetitions are dropped.
    pub fn new(edges: impl IntoIterator<Item = (u32, u32)>) -> FollowGraph {
        let mut graph = FollowGraph::default();
        for (from, to) in edges {
            let users = from.max(to) as usize + 1;
            if graph.follows.len() < users {
                graph.follows.resize(users, Vec::new());
                graph.followers.resize(users, Vec::new());
            }
            if from != to {
                graph.follows[from as usize].push(to);
                graph.followers[to as usize].push(from);
            }
        }
        for list in graph.follows.iter_mut().chain(&mut graph.followers) {
            list.sort_unstable();
            list.dedup();
        }
        graph
    }

    /// A generated graph: up to 50 followees by Zipf 1.75, themselves by Zipf 1.75.
    pub fn generate(users: u32, seed: u64) -> Result<FollowGraph, GenerateError> {
        at_least_one("users", u64::from(users))?;
        let mut random = Random::seed_from_u64(seed);
        let (length, whom) = (Zipf::new(50, 1.75)?, Zipf::new(u64::from(users), 1.75)?);
        let mut edges = Vec::new();
        for user in 0..users {
            for _ in 0..=length.draw(&mut random) {
                edges.push((user, whom.draw(&mut random) as u32));
            }
        }
        let mut graph = FollowGraph::new(edges);
        graph.follows.resize(users as usize, Vec::new());
        graph.followers.resize(users as usize, Vec::new());
        Ok(graph)
    }

    /// How many users there are.
    pub fn users(&self) -> usize {
        self.follows.len()
    }
}

/// The generator.
#[derive(Clone, Debug)]
pub struct Twitter {
    graph: FollowGraph,
    /// Running sums of the users' weights, by followers and by followees.
    by_followers: Vec<u64>,
    by_follows: Vec<u64>,
    position: Vec<Zipf>,
}

impl Twitter {
    /// Over a follow graph.
    pub fn new(graph: FollowGraph) -> Result<Twitter, GenerateError> {
        at_least_one("users of the follow graph", graph.users() as u64)?;
        let by_followers = sums(&graph.followers);
        let by_follows = sums(&graph.follows);
        // A Zipf for each power of two of the list's length: accurate enough, and cheap.
        let position = (0..32).map(|bits| Zipf::new(1 << bits, 0.99)).collect::<Result<_, _>>()?;
        Ok(Twitter { graph, by_followers, by_follows, position })
    }

    fn some_of(&self, list: &[u32], random: &mut Random) -> Vec<u32> {
        if list.len() <= LIST {
            return list.to_vec();
        }
        let zipf = &self.position[(list.len() - 1).ilog2() as usize + 1];
        let mut drawn: Vec<usize> = Vec::with_capacity(LIST);
        while drawn.len() < LIST {
            let mut position = zipf.draw(random) as usize % list.len();
            while drawn.contains(&position) {
                position = (position + 1) % list.len();
            }
            drawn.push(position);
        }
        drawn.into_iter().map(|position| list[position]).collect()
    }
}

/// Running sums of ⌈ln degree⌉ + 1.
fn sums(lists: &[Vec<u32>]) -> Vec<u64> {
    let mut sum = 0;
    let weight = |list: &Vec<u32>| (list.len().max(1) as f64).ln().ceil() as u64 + 1;
    lists
        .iter()
        .map(|list| {
            sum += weight(list);
            sum
        })
        .collect()
}

fn draw(sums: &[u64], random: &mut Random) -> u32 {
    let aim = random.random_range(0..sums.last().copied().unwrap_or(1).max(1));
    sums.partition_point(|&sum| sum <= aim) as u32
}

fn touch(table: u8, user: u32, write: bool) -> Touch {
    Touch { table, key: i64::from(user), write }
}

impl Workload for Twitter {
    fn tables(&self) -> &'static [&'static str] {
        &["added_tweets", "followers", "follows", "tweets", "user_profiles"]
    }

    fn transaction(&mut self, _at_us: i64, random: &mut Random, touches: &mut Vec<Touch>) {
        match random.random_range(0..100) {
            0..90 => touches.push(touch(TWEETS, draw(&self.by_followers, random), false)),
            90..96 => {
                let user = draw(&self.by_followers, random);
                touches.push(touch(USER_PROFILES, user, false));
                touches.push(touch(ADDED_TWEETS, user, true));
            }
            96..99 => {
                let user = draw(&self.by_followers, random);
                touches.push(touch(FOLLOWERS, user, false));
                let some = self.some_of(&self.graph.followers[user as usize], random);
                touches.extend(some.into_iter().map(|who| touch(USER_PROFILES, who, false)));
            }
            _ => {
                let user = draw(&self.by_follows, random);
                touches.push(touch(FOLLOWS, user, false));
                let some = self.some_of(&self.graph.follows[user as usize], random);
                touches.extend(some.into_iter().map(|whom| touch(TWEETS, whom, false)));
            }
        }
    }
}
