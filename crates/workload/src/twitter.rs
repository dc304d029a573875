//! The Twitter benchmark of OLTPBench: users, their tweets, and who follows whom.
//!
//! ```text
//!   users ──▶ tweets    (user, number)
//!     ├─────▶ follows   (user, whom)         a few users have very many followers
//!     └─────▶ followers (user, by)           the same edges in the other direction
//! ```
//!
//! | transaction | share | reads | writes |
//! | --- | ---: | --- | --- |
//! | GetTweet | 1 % | one tweet | |
//! | GetTweetsFromFollowing | 1 % | the users that a user follows, and the last tweets of each | |
//! | GetFollowers | 7 % | the followers of a user, and their names | |
//! | GetUserTweets | 89 % | a user's last tweets | |
//! | InsertTweet | 2 % | | a tweet |
//!
//! Users and the users that they follow are drawn from Zipf distributions over the same shuffled
//! order, so the most active users are also read and followed most. A tweet's key is its user and
//! its number, so a user's last tweets form a range. The generator assigns the numbers, as
//! [`crate::Tpcc`] does for orders. The graph of followers is constant and part of the workload, so
//! every key is known before a transaction runs.
//!
//! # The check
//!
//! Every row counts as one, so the sum over all rows is the initial sum plus the number of inserted
//! tweets. A reader must find the tweets of the initial load among those that it reads.

use crate::chooser::draw;
use crate::error::check_count;
use crate::number::add_to_number;
use crate::{
    Audit, Chooser, DataAccess, LoadRow, Mismatch, OptionsError, Outcome, Random, Skew, Totals,
    Transaction, Workload, random,
};
use isomer_design::{
    Access, Column, ColumnType, Footprint, Key, KeyRange, Schema, Span, TableId, Value,
};
use rand::RngExt;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The maximum number of tweets or users in a list.
const LIST_MAX: u32 = 20;
/// The maximum number of users that a user follows.
const FOLLOWS_MAX: u64 = 50;
/// The names of the transactions, in the order of the mix.
const NAMES: [&str; 5] =
    ["get_tweet", "get_tweets_from_following", "get_followers", "get_user_tweets", "insert_tweet"];

/// Options of [`Twitter`].
#[derive(Clone, PartialEq, Debug)]
pub struct TwitterOptions {
    /// The number of users.
    pub users: u32,
    /// The initial number of tweets of each user.
    pub tweets: u32,
    /// The weights of the five transactions, in the order of the table above.
    pub mix: [u32; 5],
    /// The distribution of the users of transactions.
    pub skew: Skew,
    /// The distribution of followed users, and of the number of users that each follows.
    pub follow_skew: Skew,
}

impl Default for TwitterOptions {
    /// Five thousand users with 20 tweets each, and the mix and constants of OLTPBench.
    fn default() -> TwitterOptions {
        TwitterOptions {
            users: 5000,
            tweets: 20,
            mix: [1, 1, 7, 89, 2],
            skew: Skew::Zipf(1.0),
            follow_skew: Skew::Zipf(1.75),
        }
    }
}

/// The benchmark; see the module documentation. Clones share the counters of tweets.
#[derive(Clone, Debug)]
pub struct Twitter {
    options: Arc<TwitterOptions>,
    tables: Tables,
    chooser: Chooser,
    graph: Arc<Graph>,
    /// By user: the number of tweets so far.
    counts: Arc<Vec<AtomicU32>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tables {
    users: TableId,
    tweets: TableId,
    follows: TableId,
    followers: TableId,
}

/// The edges between users in both directions, sorted.
#[derive(Debug)]
struct Graph {
    follows: Vec<Vec<u32>>,
    followers: Vec<Vec<u32>>,
}

/// A transaction of [`Twitter`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TwitterTransaction {
    kind: usize,
    items: Vec<Item>,
}

/// An access of a transaction: a row to find, a range with the minimum number of rows to find, or a
/// row to insert.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Item {
    Row(TableId, Key),
    Range(TableId, KeyRange, u32),
    Insert(TableId, Key),
}

impl Graph {
    /// The graph depends only on the options, not on the seed of a run.
    fn new(options: &TwitterOptions) -> Result<Graph, OptionsError> {
        let users = options.users;
        let most = FOLLOWS_MAX.min(u64::from(users) - 1);
        let (count, whom) = (
            Chooser::new(most, options.follow_skew)?,
            Chooser::new(users.into(), options.follow_skew)?,
        );
        let mut rng = random(u64::from(users));
        let mut followers = vec![Vec::new(); users as usize];
        let mut follows = Vec::with_capacity(users as usize);
        for user in 0..users {
            let wanted = 1 + count.choose(&mut rng);
            let mut chosen = BTreeSet::new();
            // With a strong skew most choices are repetitions, so the number of attempts is
            // limited.
            for _ in 0..10 * wanted {
                let other = shuffled(whom.choose(&mut rng) as u32, users);
                if chosen.len() as u64 == wanted {
                    break;
                }
                if other != user {
                    chosen.insert(other);
                }
            }
            chosen.iter().for_each(|other: &u32| followers[*other as usize].push(user));
            follows.push(chosen.into_iter().collect());
        }
        Ok(Graph { follows, followers })
    }
}

/// The user of a rank. Neighbouring ranks are spread over all users.
fn shuffled(rank: u32, users: u32) -> u32 {
    // A step that is coprime to the number of users visits each user once.
    let step = (0..).map(|more| users * 5 / 8 + 1 + more).find(|step| are_coprime(*step, users));
    let step = u64::from(step.expect("a prime above the number of users is coprime to it"));
    (u64::from(rank) * step % u64::from(users)) as u32
}

fn are_coprime(mut a: u32, mut b: u32) -> bool {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

impl Twitter {
    /// Creates the benchmark in four tables with consecutive ids from `first` on.
    ///
    /// # Errors
    /// If an option is invalid.
    pub fn new(options: TwitterOptions, first: TableId) -> Result<Twitter, OptionsError> {
        check_count("users", u64::from(options.users), 10..=10_000_000)?;
        check_count("tweets of each user", u64::from(options.tweets), 1..=1_000_000)?;
        let weights = options.mix.iter().map(|&weight| u64::from(weight)).sum();
        check_count("as the sum of the mix", weights, 1..=u64::from(u32::MAX))?;
        let chooser = Chooser::new(options.users.into(), options.skew)?;
        let id = |at: u32| TableId(first.0 + at);
        let tables = Tables { users: id(0), tweets: id(1), follows: id(2), followers: id(3) };
        let graph = Arc::new(Graph::new(&options)?);
        let counts = counts(&options);
        Ok(Twitter { options: Arc::new(options), tables, chooser, graph, counts })
    }

    /// The same benchmark without its inserted tweets, for another database.
    #[must_use]
    pub fn anew(&self) -> Twitter {
        Twitter { counts: counts(&self.options), ..self.clone() }
    }

    fn user(&self, rng: &mut Random) -> u32 {
        shuffled(self.chooser.choose(rng) as u32, self.options.users)
    }

    /// The last tweets of a user whose numbers are assigned. Only those of the initial load must be
    /// found.
    fn last_tweets(&self, user: u32) -> Item {
        let count = self.counts[user as usize].load(Relaxed);
        let first = count.saturating_sub(LIST_MAX);
        let range = KeyRange::new(key(user, first), Some(Key::int(i64::from(user) + 1)));
        Item::Range(self.tables.tweets, range, self.options.tweets.saturating_sub(first))
    }

    /// The first edges of a user in one direction.
    fn edges(&self, table: TableId, user: u32, others: &[u32]) -> Item {
        let shown = others.len().min(LIST_MAX as usize);
        let end = others.get(shown).map_or(Key::int(i64::from(user) + 1), |next| key(user, *next));
        Item::Range(table, KeyRange::new(Key::int(user.into()), Some(end)), shown as u32)
    }

    fn items(&self, kind: usize, rng: &mut Random) -> Vec<Item> {
        let user = self.user(rng);
        let shown =
            |others: &[u32]| others.iter().copied().take(LIST_MAX as usize).collect::<Vec<_>>();
        match kind {
            0 => {
                let number = rng.random_range(0..self.options.tweets);
                vec![Item::Row(self.tables.tweets, key(user, number))]
            }
            1 => {
                let others = &self.graph.follows[user as usize];
                let list = self.edges(self.tables.follows, user, others);
                let tweets = shown(others).into_iter().map(|other| self.last_tweets(other));
                std::iter::once(list).chain(tweets).collect()
            }
            2 => {
                let others = &self.graph.followers[user as usize];
                let list = self.edges(self.tables.followers, user, others);
                let users = self.tables.users;
                let names =
                    shown(others).into_iter().map(|by| Item::Row(users, Key::int(by.into())));
                std::iter::once(list).chain(names).collect()
            }
            3 => vec![self.last_tweets(user)],
            _ => {
                let number = self.counts[user as usize].fetch_add(1, Relaxed);
                vec![Item::Insert(self.tables.tweets, key(user, number))]
            }
        }
    }
}

fn counts(options: &TwitterOptions) -> Arc<Vec<AtomicU32>> {
    Arc::new((0..options.users).map(|_| AtomicU32::new(options.tweets)).collect())
}

fn key(user: u32, second: u32) -> Key {
    Key::ints(&[i64::from(user), i64::from(second)])
}

/// The column `counts` is the number at the front of every row.
fn schema(name: &str, keys: &[&str]) -> Schema {
    let numbers = keys.iter().chain(&["counts"]).map(|name| Column::new(*name, ColumnType::Int64));
    let text = std::iter::once(Column::new("text", ColumnType::Bytes));
    Schema::new(name, numbers.chain(text).collect(), keys).expect("the schema is valid")
}

/// A row of any of the tables, with number 1 and `text_bytes` of text.
fn row(text_bytes: usize) -> Vec<u8> {
    let values = [Value::Int64(0), Value::Int64(0), Value::Bytes(vec![b't'; text_bytes])];
    let (_, mut row) =
        schema("any", &["id"]).encode_row(&values).expect("the values fit the schema");
    add_to_number(&mut row, 1);
    row
}

const TWEET_BYTES: usize = 100;
const NAME_BYTES: usize = 40;

impl Workload for Twitter {
    type Transaction = TwitterTransaction;

    fn name(&self) -> &'static str {
        "twitter"
    }

    fn tables(&self) -> Vec<(TableId, Schema)> {
        let Tables { users, tweets, follows, followers } = self.tables;
        vec![
            (users, schema("users", &["user"])),
            (tweets, schema("tweets", &["user", "number"])),
            (follows, schema("follows", &["user", "whom"])),
            (followers, schema("followers", &["user", "by"])),
        ]
    }

    /// All tables are split at the same users. A partition holds as many users as have about `rows`
    /// tweets initially.
    fn borders(&self, rows: u64) -> BTreeMap<TableId, Vec<Key>> {
        let users = (rows / u64::from(self.options.tweets)).clamp(1, self.options.users.into());
        let starts = (0..self.options.users).step_by(users as usize).skip(1);
        let starts: Vec<Key> = starts.map(|user| Key::int(user.into())).collect();
        self.tables().into_iter().map(|(table, _)| (table, starts.clone())).collect()
    }

    fn load(&self) -> impl Iterator<Item = LoadRow> {
        let Tables { users, tweets, follows, followers } = self.tables;
        let (all, each, graph) = (self.options.users, self.options.tweets, &self.graph);
        let (name, tweet, edge) = (row(NAME_BYTES), row(TWEET_BYTES), row(0));
        let edges = move |table, of: &'_ [Vec<u32>]| -> Vec<(TableId, Key)> {
            let lists = (0..).zip(of);
            lists.flat_map(|(u, list)| list.iter().map(move |v| (table, key(u, *v)))).collect()
        };
        let both =
            edges(follows, &graph.follows).into_iter().chain(edges(followers, &graph.followers));
        let users = (0..all).map(move |user| LoadRow {
            table: users,
            key: Key::int(user.into()),
            row: name.clone(),
        });
        let numbers = (0..all).flat_map(move |user| (0..each).map(move |number| key(user, number)));
        let tweets = numbers.map(move |key| LoadRow { table: tweets, key, row: tweet.clone() });
        let both = both.map(move |(table, key)| LoadRow { table, key, row: edge.clone() });
        users.chain(tweets).chain(both)
    }

    fn next(&mut self, rng: &mut Random) -> TwitterTransaction {
        let kind = draw(&self.options.mix, rng);
        TwitterTransaction { kind, items: self.items(kind, rng) }
    }

    fn loaded(&self) -> Totals {
        let edges: u64 = self.graph.follows.iter().map(|list| list.len() as u64).sum();
        let rows = u64::from(self.options.users) * (1 + u64::from(self.options.tweets)) + 2 * edges;
        Totals { rows, damaged: 0, sum: rows.into() }
    }

    fn audits(&self, rows: u64) -> Vec<Audit> {
        let of_table = |(table, _)| Audit::of_table(table, self.options.users.into(), rows);
        self.tables().into_iter().flat_map(of_table).collect()
    }

    /// Every row has the number 1, so the expected number of rows equals the expected sum.
    fn judge(&self, found: Totals, added: i128) -> Result<(), Mismatch> {
        let sum = self.loaded().sum + added;
        let expected = Totals { rows: sum as u64, damaged: 0, sum };
        if found == expected { Ok(()) } else { Err(Mismatch { found, expected }) }
    }
}

impl Transaction for TwitterTransaction {
    fn name(&self) -> &'static str {
        NAMES[self.kind]
    }

    fn footprint_into(&self, footprint: &mut Footprint) {
        for item in &self.items {
            match item {
                Item::Row(table, key) => {
                    footprint.add(*table, Span::Key(key.clone()), Access::Read)
                }
                Item::Range(table, range, _) => {
                    footprint.add(*table, Span::Range(range.clone()), Access::Read);
                }
                Item::Insert(table, key) => {
                    footprint.add(*table, Span::Key(key.clone()), Access::Write)
                }
            }
        }
    }

    fn run<D: DataAccess>(&self, data: &mut D) -> Result<Outcome, D::Error> {
        let mut added = 0;
        for item in &self.items {
            match item {
                Item::Row(table, key) => {
                    if data.get(*table, key)?.is_none() {
                        let what = format!("row {table}[{key}] is missing");
                        return Ok(Outcome::Inconsistent { what });
                    }
                }
                Item::Range(table, range, least) => {
                    let mut found = 0;
                    data.scan(*table, range, |_, _| {
                        found += 1;
                        ControlFlow::Continue(())
                    })?;
                    if found < *least {
                        let what =
                            format!("{table}{range} holds {found} rows, not {least} or more");
                        return Ok(Outcome::Inconsistent { what });
                    }
                }
                Item::Insert(table, key) => {
                    data.insert(*table, key, &row(TWEET_BYTES))?;
                    added += 1;
                }
            }
        }
        Ok(Outcome::Commit { added })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Model;

    const FIRST: TableId = TableId(1);

    fn small() -> Twitter {
        let options = TwitterOptions { users: 200, ..TwitterOptions::default() };
        Twitter::new(options, FIRST).unwrap()
    }

    #[test]
    fn every_transaction_finds_what_it_must_and_the_rows_add_up() {
        let mut twitter = small();
        let mut data = Model::loaded(&twitter);
        let (mut rng, mut added, mut kinds) = (random(1), 0, BTreeSet::new());
        for _ in 0..2000 {
            let transaction = twitter.next(&mut rng);
            kinds.insert(transaction.name());
            match data.execute(&transaction).unwrap() {
                Outcome::Commit { added: net } => added += i128::from(net),
                other => panic!("{}: {other:?}", transaction.name()),
            }
        }
        assert_eq!(kinds.len(), 5);
        assert!(added > 10);
        assert_eq!(twitter.verify(&mut data, added), Ok(Ok(())));
        assert!(twitter.verify(&mut data, added - 1).unwrap().is_err());
    }

    #[test]
    fn a_list_that_lacks_a_tweet_is_found() {
        let twitter = small();
        let mut data = Model::loaded(&twitter);
        data.delete(twitter.tables.tweets, &key(7, 3)).unwrap();
        let transaction = TwitterTransaction { kind: 3, items: vec![twitter.last_tweets(7)] };
        let Outcome::Inconsistent { what } = data.execute(&transaction).unwrap() else { panic!() };
        assert_eq!(what, "t2[7/0..8) holds 19 rows, not 20 or more");
    }

    #[test]
    fn the_same_few_users_are_followed_and_chosen_most() {
        let twitter = small();
        let most = (0..200).max_by_key(|user| twitter.graph.followers[*user].len()).unwrap() as u32;
        assert_eq!(most, shuffled(0, 200));
        let mut rng = random(2);
        let chosen = (0..1000).filter(|_| twitter.user(&mut rng) == most).count();
        assert!(chosen > 100, "{chosen}");
        let all: BTreeSet<u32> = (0..200).map(|rank| shuffled(rank, 200)).collect();
        assert_eq!(all.len(), 200);
        assert!(twitter.load().is_sorted_by(|a, b| (a.table, &a.key) < (b.table, &b.key)));
    }
}
