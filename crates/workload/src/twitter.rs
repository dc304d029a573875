//! Twitter: users, what they write, and who follows whom, as in OLTPBench.
//!
//! ```text
//!   users ──▶ tweets (user, number)
//!     ├─────▶ follows   (user, whom)         a few are followed by very many
//!     └─────▶ followers (user, by whom)      the same, the other way round
//! ```
//!
//! | transaction | share | reads | writes |
//! | --- | ---: | --- | --- |
//! | GetTweet | 1 % | one tweet | |
//! | GetTweetsFromFollowing | 1 % | whom a user follows, and the last tweets of each | |
//! | GetFollowers | 7 % | who follows a user, and their names | |
//! | GetUserTweets | 89 % | a user's last tweets | |
//! | InsertTweet | 2 % | | a tweet |
//!
//! Users are chosen by Zipf's law and so is whom they follow, both over the same shuffled order: who
//! writes most is read and followed most. Tweets are kept under their user and numbered there, so that
//! the last ones are a range; the generator hands the numbers out ([`crate::Tpcc`] does so for orders).
//! The graph does not change, so it is part of the workload, and every key is known before a
//! transaction runs.
//!
//! # The check
//!
//! Every row counts as one, so the sum over all rows is that of the beginning plus the tweets
//! that were inserted. Readers find the tweets that were there when they chose.

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

/// A list of tweets or users shows so many.
const LIST_MAX: u32 = 20;
/// Nobody follows more than so many at first.
const FOLLOWS_MAX: u64 = 50;
/// Names of the transactions, in the order of the mix.
const NAMES: [&str; 5] =
    ["get_tweet", "get_tweets_from_following", "get_followers", "get_user_tweets", "insert_tweet"];

/// What a [`Twitter`] is like.
#[derive(Clone, PartialEq, Debug)]
pub struct TwitterOptions {
    /// Number of users.
    pub users: u32,
    /// Tweets of each user at first.
    pub tweets: u32,
    /// Weights of the five transactions, in the order of the table above.
    pub mix: [u32; 5],
    /// How unevenly users are chosen.
    pub skew: Skew,
    /// How unevenly they follow each other, and how many each follows.
    pub follow_skew: Skew,
}

impl Default for TwitterOptions {
    /// Five thousand users with 20 tweets each, OLTPBench's mix and constants.
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

/// The benchmark. See the head of the module. A clone shares the numbers of tweets.
#[derive(Clone, Debug)]
pub struct Twitter {
    options: Arc<TwitterOptions>,
    tables: Tables,
    chooser: Chooser,
    graph: Arc<Graph>,
    /// Tweets of each user so far.
    counts: Arc<Vec<AtomicU32>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tables {
    users: TableId,
    tweets: TableId,
    follows: TableId,
    followers: TableId,
}

/// Who follows whom, both ways, ordered.
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

/// Something that a transaction reads, and how many rows it must find; or the row it inserts.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Item {
    Row(TableId, Key),
    Range(TableId, KeyRange, u32),
    Insert(TableId, Key),
}

impl Graph {
    /// The same for the same number of users, whatever the seed of the run.
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
            // With a strong skew most choices are repetitions: whoever has tried enough has enough.
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

/// The user of a rank: ranks that follow each other are spread over all users.
fn shuffled(rank: u32, users: u32) -> u32 {
    // A step that shares no factor with the number of users visits each of them once.
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
    /// The benchmark, in four tables from this id on.
    ///
    /// # Errors
    /// If the options make no sense.
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

    /// The benchmark again from its beginning, for another database.
    #[must_use]
    pub fn anew(&self) -> Twitter {
        Twitter { counts: counts(&self.options), ..self.clone() }
    }

    fn user(&self, rng: &mut Random) -> u32 {
        shuffled(self.chooser.choose(rng) as u32, self.options.users)
    }

    /// The last tweets of a user that have been handed out; those of the beginning must be found.
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

/// `counts` is the number at the front of every row.
fn schema(name: &str, keys: &[&str]) -> Schema {
    let numbers = keys.iter().chain(&["counts"]).map(|name| Column::new(*name, ColumnType::Int64));
    let text = std::iter::once(Column::new("text", ColumnType::Bytes));
    Schema::new(name, numbers.chain(text).collect(), keys).expect("the schema is valid")
}

/// A row of any of the tables: it counts as one, and has so many bytes of text.
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

    /// By users, in every table at the same ones: a partition has the tweets of about `rows` of them
    /// divided by how many each has.
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

    /// Tweets are inserted, each of which counts as one: so there are as many rows as the sum says.
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
    fn the_same_few_are_followed_and_chosen_most() {
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
