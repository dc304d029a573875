//! Checks transfers between accounts: every transfer is atomic, and balances read at one time have
//! the right sum.
//!
//! Each transfer also inserts its number into a ledger, in the same transaction. At the end, the
//! ledger shows which transfers with a lost answer have committed, and the balances must match the
//! ledger.
//!
//! ```text
//!   T1  3 ▶ 5   10   committed     must be in the ledger
//!   T2  5 ▶ 1   20   failed        must not be in the ledger       every read of all accounts:
//!   T3  1 ▶ 3    5   unknown       may be in the ledger            sum = accounts · start
//! ```

use crate::history::Outcome;
use crate::verdict::Anomaly;
use std::collections::{BTreeMap, BTreeSet};

/// The number of an account.
pub type Account = i64;

/// A transfer that a client requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// Its number in the ledger.
    pub number: i64,
    /// The account that pays.
    pub from: Account,
    /// The account that is paid.
    pub to: Account,
    /// The amount.
    pub amount: i64,
    /// The answer that the client received.
    pub outcome: Outcome,
}

/// The actions and observations of all clients.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Bank {
    /// The number of accounts, numbered from 0, and the initial balance of each.
    pub accounts: (Account, i64),
    /// All requested transfers.
    pub transfers: Vec<Transfer>,
    /// Reads of all balances at one time each, with the name of the reader.
    pub reads: Vec<(String, BTreeMap<Account, i64>)>,
    /// The numbers in the ledger at the end.
    pub ledger: Vec<i64>,
    /// The balances at the end.
    pub last: BTreeMap<Account, i64>,
}

impl Bank {
    /// Returns all anomalies; empty if there are none.
    pub fn judge(&self) -> Vec<Anomaly> {
        let sums =
            self.reads.iter().filter_map(|(reader, balances)| self.adds_up(reader, balances));
        let end = self.adds_up("the last read", &self.last);
        sums.chain(end).chain(self.outcomes()).chain(self.balances()).collect()
    }

    fn adds_up(&self, reader: &str, balances: &BTreeMap<Account, i64>) -> Option<Anomaly> {
        let (count, start) = self.accounts;
        let (is, sum) = (balances.len() as i64, balances.values().sum::<i64>());
        let what = format!(
            "{reader} found {sum} in {is} accounts, not {} in {count}: {balances:?}",
            count * start
        );
        ((is, sum) != (count, count * start)).then(|| anomaly("read skew", what))
    }

    fn outcomes(&self) -> impl Iterator<Item = Anomaly> + '_ {
        let there: BTreeSet<i64> = self.ledger.iter().copied().collect();
        let asked: BTreeSet<i64> = self.transfers.iter().map(|transfer| transfer.number).collect();
        let strangers = there.difference(&asked).map(|number| {
            anomaly(
                "transfer from nowhere",
                format!("the ledger has {number}, which nobody asked for"),
            )
        });
        let strangers: Vec<Anomaly> = strangers.collect();
        let wrong = self.transfers.iter().filter_map(move |transfer| {
            let number = transfer.number;
            match (transfer.outcome, there.contains(&number)) {
                (Outcome::Committed, false) => {
                    let what = format!("{number} has committed, and the ledger lacks it");
                    Some(anomaly("lost transfer", what))
                }
                (Outcome::Failed, true) => {
                    let what = format!("{number} has had no effect, and the ledger has it");
                    Some(anomaly("aborted transfer", what))
                }
                _ => None,
            }
        });
        strangers.into_iter().chain(wrong)
    }

    fn balances(&self) -> Option<Anomaly> {
        let (count, start) = self.accounts;
        let mut expected: BTreeMap<Account, i64> = (0..count).map(|at| (at, start)).collect();
        let there: BTreeSet<i64> = self.ledger.iter().copied().collect();
        for transfer in self.transfers.iter().filter(|transfer| there.contains(&transfer.number)) {
            *expected.entry(transfer.from).or_default() -= transfer.amount;
            *expected.entry(transfer.to).or_default() += transfer.amount;
        }
        let wrong = expected.iter().find(|(at, balance)| self.last.get(at) != Some(balance))?;
        let (at, balance) = wrong;
        let found = self.last.get(at);
        let what = format!("account {at} has {found:?} in the end, by the ledger it is {balance}");
        Some(anomaly("half a transfer", what))
    }
}

fn anomaly(name: &str, what: String) -> Anomaly {
    Anomaly { name: name.to_owned(), story: vec![what] }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three accounts with 10 each; two of three transfers are in the ledger.
    fn bank() -> Bank {
        let transfer =
            |number, from, to, amount, outcome| Transfer { number, from, to, amount, outcome };
        let read = |balances: [i64; 3]| (0..).zip(balances).collect::<BTreeMap<_, _>>();
        Bank {
            accounts: (3, 10),
            transfers: vec![
                transfer(1, 0, 1, 4, Outcome::Committed),
                transfer(2, 1, 2, 7, Outcome::Failed),
                transfer(3, 2, 0, 1, Outcome::Unknown),
            ],
            reads: vec![("a".to_owned(), read([10, 10, 10])), ("b".to_owned(), read([6, 14, 10]))],
            ledger: vec![3, 1],
            last: read([7, 14, 9]),
        }
    }

    #[track_caller]
    fn says(bank: &Bank, expected: &[&str]) {
        let said: Vec<String> = bank.judge().into_iter().map(|anomaly| anomaly.name).collect();
        assert_eq!(said, expected);
    }

    #[test]
    fn a_transfer_with_an_unknown_outcome_may_be_in_the_ledger_or_not() {
        says(&bank(), &[]);
        let (ledger, last) = (vec![1], bank().reads[1].1.clone());
        says(&Bank { ledger, last, ..bank() }, &[]);
    }

    #[test]
    fn each_fault_has_a_name() {
        let mut skewed = bank();
        skewed.reads[0].1.insert(2, 9);
        says(&skewed, &["read skew"]);
        let mut missing = bank();
        missing.reads[1].1.remove(&2);
        says(&missing, &["read skew"]);
        let mut lost = Bank { ledger: vec![3], ..bank() };
        lost.last = (0..).zip([11, 10, 9]).collect();
        says(&lost, &["lost transfer"]);
        let mut torn = bank();
        torn.last = (0..).zip([7, 15, 8]).collect();
        says(&torn, &["half a transfer"]);
        let mut raised = Bank { ledger: vec![1, 2, 3], ..bank() };
        raised.last = (0..).zip([7, 7, 16]).collect();
        says(&raised, &["aborted transfer"]);
        says(&Bank { ledger: vec![1, 3, 9], ..bank() }, &["transfer from nowhere"]);
    }
}
