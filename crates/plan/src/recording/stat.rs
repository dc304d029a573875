//! A summary of a recording.

use super::Recording;

/// One table of a recording.
#[derive(Clone, PartialEq, Debug)]
pub struct TableStatistics {
    /// Its name.
    pub name: String,
    /// Distinct keys.
    pub keys: u64,
    /// Accesses.
    pub accesses: u64,
    /// Those that wrote.
    pub writes: u64,
    /// The share of accesses to the most accessed hundredth of the keys (at least one key).
    pub hottest_hundredth: f64,
}

/// A whole recording.
#[derive(Clone, PartialEq, Debug)]
pub struct Statistics {
    /// Transactions.
    pub transactions: u64,
    /// Accesses.
    pub accesses: u64,
    /// From first to last transaction, in seconds.
    pub seconds: f64,
    /// Mean number of distinct keys of a transaction.
    pub keys_per_transaction: f64,
    /// The share of transactions that touch more than one key.
    pub multi_key_share: f64,
    /// Per table, by name.
    pub tables: Vec<TableStatistics>,
}

impl Statistics {
    /// Counts the figures of a recording.
    pub fn of(recording: &Recording) -> Statistics {
        let keys = recording.keys();
        let mut per_vertex = vec![(0u64, 0u64); keys.len()];
        let (mut distinct, mut multi, mut touched) = (0u64, 0u64, Vec::new());
        for transaction in recording.transactions() {
            touched.clear();
            for (vertex, write) in transaction.accesses() {
                per_vertex[vertex as usize].0 += 1;
                per_vertex[vertex as usize].1 += u64::from(write);
                touched.push(vertex);
            }
            touched.sort_unstable();
            touched.dedup();
            distinct += touched.len() as u64;
            multi += u64::from(touched.len() > 1);
        }
        let transactions = recording.len() as u64;
        let mut by_table = vec![Vec::new(); keys.tables().len()];
        for (vertex, counts) in per_vertex.iter().enumerate().filter(|(_, counts)| counts.0 > 0) {
            by_table[usize::from(keys.table_of(vertex as u32))].push(*counts);
        }
        Statistics {
            transactions,
            accesses: recording.accesses() as u64,
            seconds: recording.seconds(),
            keys_per_transaction: distinct as f64 / transactions.max(1) as f64,
            multi_key_share: multi as f64 / transactions.max(1) as f64,
            tables: keys.tables().zip(by_table).map(|(name, counts)| table(name, counts)).collect(),
        }
    }
}

fn table(name: &str, mut counts: Vec<(u64, u64)>) -> TableStatistics {
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let accesses: u64 = counts.iter().map(|count| count.0).sum();
    let hottest: u64 = counts.iter().take(counts.len().div_ceil(100)).map(|count| count.0).sum();
    TableStatistics {
        name: name.to_owned(),
        keys: counts.len() as u64,
        accesses,
        writes: counts.iter().map(|count| count.1).sum(),
        hottest_hundredth: hottest as f64 / accesses.max(1) as f64,
    }
}
