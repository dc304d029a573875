//! Transfers between accounts: every one is there whole or not at all, and what is read at one time adds up.
//!
//! Each transfer notes itself in a ledger, in its own transaction. The ledger says in the end which of those
//! whose answer was lost have happened; the balances have to be what it adds up to.
//!
//! ```text
//!   T1  3 ▶ 5   10   committed     ledger has to have it
//!   T2  5 ▶ 1   20   failed        ledger must not have it         every read of all accounts:
//!   T3  1 ▶ 3    5   unknown       ledger may have it              sum = accounts · start
//! ```

use crate::history::Outcome;
use crate::verdict::Anomaly;
use std::collections::{BTreeMap, BTreeSet};

/// The number of an account.
pub type Account = i64;

/// A transfer that a client asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// What the ledger knows it by.
    pub number: i64,
    /// Who pays.
    pub from: Account,
    /// Who is paid.
    pub to: Account,
    /// How much.
    pub amount: i64,
    /// What the client was told.
    pub outcome: Outcome,
}

/// What clients did and saw.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Bank {
    /// How many accounts there are, numbered from zero, and what each had in the beginning.
    pub accounts: (Account, i64),
    /// All that were asked for.
    pub transfers: Vec<Transfer>,
    /// Balances that were read at one time each, and the reader.
    pub reads: Vec<(String, BTreeMap<Account, i64>)>,
    /// The numbers in the ledger, in the end.
    pub ledger: Vec<i64>,
    /// The balances in the end.
    pub last: BTreeMap<Account, i64>,
}

impl Bank {
    /// Finds what cannot be; nothing if all is well.
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

    /// Three accounts of 10 each; of three transfers the ledger has two.
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
    fn what_was_not_answered_may_have_happened_or_not() {
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
