//! SmallBank: six short banking procedures on the accounts of many customers.
//!
//! Every customer has a savings account and a checking account, in two tables whose key is the
//! customer.
//!
//! | procedure | share | reads | writes | adds |
//! | --- | ---: | --- | --- | --- |
//! | Amalgamate | 15 % | | both of one customer, checking of another | 0 |
//! | Balance | 15 % | both | | 0 |
//! | DepositChecking | 15 % | | checking | the amount |
//! | SendPayment | 25 % | | checking of two customers | 0 |
//! | TransactSavings | 15 % | | savings | the amount |
//! | WriteCheck | 15 % | savings | checking | −amount, or −amount − 1 with a penalty |
//!
//! Amalgamate moves all money of one customer to the checking account of another. SendPayment, and
//! TransactSavings with a negative amount, roll back if the account has insufficient funds.
//! WriteCheck always commits, but takes a penalty of one cent if the sum of both accounts is too
//! small.
//!
//! WriteCheck reads one account and writes the other. Two WriteChecks of one customer, or a
//! WriteCheck and a TransactSavings, may each miss the other's write (write skew). Under snapshot
//! isolation a penalty may therefore be missing that every serial order would have taken. For this
//! reason the check below uses what each procedure reports as added, including the penalty.
//!
//! # The check
//!
//! Money is conserved: the sum over all accounts is the initial sum plus the reported additions of
//! all committed procedures.
//!
//! # What differs from other versions
//!
//! There is no table that maps account names to customers, as in the MorphoSys evaluation, whose
//! transactions have at most two customers and no lookups. Amounts are random numbers of cents
//! instead of constants, so that swapping two procedures rarely goes unnoticed.

use crate::chooser::draw;
use crate::error::{check_count, check_share};
use crate::number::{add_to_number, number};
use crate::{
    Audit, DataAccess, LoadRow, OptionsError, Outcome, Random, Totals, Transaction, Workload,
};
use isomer_design::{Access, Column, ColumnType, Footprint, Key, Schema, Span, TableId, Value};
use rand::RngExt;

/// The maximum number of customers, which keeps customer numbers and balances exact.
const CUSTOMERS_MAX: u64 = 1 << 40;

/// A small set of customers that takes part in most transactions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HotSpot {
    /// The number of hot customers: those with the smallest numbers.
    pub customers: u64,
    /// The share of transactions in which all customers are hot.
    pub share: f64,
}

/// Blocks of neighbouring customers, such as partitions, who mostly transact with each other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Blocks {
    /// The number of customers in a block.
    pub customers: u64,
    /// Of the procedures with two customers, the share whose second customer is drawn from all
    /// customers instead of from the first one's block.
    pub across: f64,
}

/// Options of [`SmallBank`].
#[derive(Clone, PartialEq, Debug)]
pub struct SmallBankOptions {
    /// The number of customers.
    pub customers: u64,
    /// The weights of Amalgamate, Balance, DepositChecking, SendPayment, TransactSavings,
    /// WriteCheck.
    pub mix: [u32; 6],
    /// If set, some customers are hot.
    pub hot_spot: Option<HotSpot>,
    /// If set, the customers of one procedure are mostly neighbours; otherwise they are
    /// independent.
    pub blocks: Option<Blocks>,
    /// The largest amount, in cents.
    pub cents_max: i64,
}

impl Default for SmallBankOptions {
    /// A million customers, the standard mix, uniform access, amounts of up to 50.00.
    fn default() -> SmallBankOptions {
        SmallBankOptions {
            customers: 1_000_000,
            mix: [15, 15, 15, 25, 15, 15],
            hot_spot: None,
            blocks: None,
            cents_max: 5_000,
        }
    }
}

/// The benchmark; see the module documentation.
#[derive(Clone, Debug)]
pub struct SmallBank {
    options: SmallBankOptions,
    tables: Tables,
}

/// The ids of the two tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tables {
    savings: TableId,
    checking: TableId,
}

/// A transaction of [`SmallBank`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmallBankTransaction {
    tables: Tables,
    procedure: Procedure,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Procedure {
    Amalgamate { from: u64, to: u64 },
    Balance { customer: u64 },
    DepositChecking { customer: u64, cents: i64 },
    SendPayment { from: u64, to: u64, cents: i64 },
    TransactSavings { customer: u64, cents: i64 },
    WriteCheck { customer: u64, cents: i64 },
}

impl SmallBank {
    /// Creates the benchmark. The savings accounts are in the table `first`, the checking accounts
    /// in the table with the next id.
    ///
    /// # Errors
    /// If an option is invalid.
    pub fn new(options: SmallBankOptions, first: TableId) -> Result<SmallBank, OptionsError> {
        check_count("customers of a bank", options.customers, 2..=CUSTOMERS_MAX)?;
        let weights = options.mix.iter().map(|&weight| u64::from(weight)).sum();
        check_count("as the sum of the mix", weights, 1..=u64::from(u32::MAX))?;
        let cents = u64::try_from(options.cents_max).unwrap_or(0);
        check_count("cents as the largest amount", cents, 1..=1 << 40)?;
        if let Some(hot_spot) = options.hot_spot {
            check_count("hot customers", hot_spot.customers, 2..=options.customers)?;
            check_share("the share of the hot spot", hot_spot.share)?;
        }
        if let Some(blocks) = options.blocks {
            check_count("customers of a block", blocks.customers, 2..=options.customers)?;
            check_share("the share of procedures across blocks", blocks.across)?;
        }
        let tables = Tables { savings: first, checking: TableId(first.0 + 1) };
        Ok(SmallBank { options, tables })
    }

    /// Draws two different customers; procedures with one customer ignore the second.
    fn customers(&self, rng: &mut Random) -> (u64, u64) {
        let among = match self.options.hot_spot {
            Some(hot_spot) if rng.random_bool(hot_spot.share) => hot_spot.customers,
            _ => self.options.customers,
        };
        let one = rng.random_range(0..among);
        let others = match self.options.blocks {
            Some(blocks) if !rng.random_bool(blocks.across) => {
                let first = one - one % blocks.customers;
                // A last block of one customer has no neighbours: draw from all customers instead.
                Some(first..self.options.customers.min(first + blocks.customers))
            }
            _ => None,
        };
        let others = others.filter(|others| others.end - others.start > 1).unwrap_or(0..among);
        // Skips `one`: numbers from `one` on are shifted by one.
        let other = rng.random_range(others.start..others.end - 1);
        (one, other + u64::from(other >= one))
    }

    fn procedure(&self, rng: &mut Random) -> Procedure {
        let kind = draw(&self.options.mix, rng);
        let (customer, to) = self.customers(rng);
        let most = self.options.cents_max;
        match kind {
            0 => Procedure::Amalgamate { from: customer, to },
            1 => Procedure::Balance { customer },
            2 => Procedure::DepositChecking { customer, cents: rng.random_range(1..=most) },
            3 => Procedure::SendPayment { from: customer, to, cents: rng.random_range(1..=most) },
            4 => Procedure::TransactSavings { customer, cents: rng.random_range(-most..=most) },
            _ => Procedure::WriteCheck { customer, cents: rng.random_range(1..=most) },
        }
    }
}

/// The initial balance of an account in cents: pseudo-random, between 100.00 and 500.00.
fn cents_at_first(table_index: u64, customer: u64) -> i64 {
    let mixed = (2 * customer + table_index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    10_000 + ((mixed >> 32) % 40_001) as i64
}

/// `savings(customer int64, cents int64) key customer`.
fn schema(name: &str) -> Schema {
    let columns =
        vec![Column::new("customer", ColumnType::Int64), Column::new("cents", ColumnType::Int64)];
    Schema::new(name, columns, &["customer"]).expect("the schema is valid")
}

impl Workload for SmallBank {
    type Transaction = SmallBankTransaction;

    fn name(&self) -> &'static str {
        "smallbank"
    }

    fn tables(&self) -> Vec<(TableId, Schema)> {
        vec![(self.tables.savings, schema("savings")), (self.tables.checking, schema("checking"))]
    }

    fn load(&self) -> impl Iterator<Item = LoadRow> {
        let (_, template) = schema("savings")
            .encode_row(&[Value::Int64(0), Value::Int64(0)])
            .expect("the values fit the schema");
        let tables = [self.tables.savings, self.tables.checking].into_iter().zip(0..);
        let places = tables.flat_map(|(table, index)| {
            (0..self.options.customers).map(move |customer| (table, index, customer))
        });
        places.map(move |(table, index, customer)| {
            let mut row = template.clone();
            add_to_number(&mut row, cents_at_first(index, customer));
            LoadRow { table, key: Key::int(customer as i64), row }
        })
    }

    fn next(&mut self, rng: &mut Random) -> SmallBankTransaction {
        SmallBankTransaction { tables: self.tables, procedure: self.procedure(rng) }
    }

    fn loaded(&self) -> Totals {
        let customers = 0..self.options.customers;
        let cents =
            customers.map(|customer| cents_at_first(0, customer) + cents_at_first(1, customer));
        Totals { rows: 2 * self.options.customers, damaged: 0, sum: cents.map(i128::from).sum() }
    }

    fn audits(&self, rows: u64) -> Vec<Audit> {
        let tables = [self.tables.savings, self.tables.checking].into_iter();
        tables.flat_map(|table| Audit::of_table(table, self.options.customers, rows)).collect()
    }
}

impl Transaction for SmallBankTransaction {
    fn name(&self) -> &'static str {
        match self.procedure {
            Procedure::Amalgamate { .. } => "amalgamate",
            Procedure::Balance { .. } => "balance",
            Procedure::DepositChecking { .. } => "deposit_checking",
            Procedure::SendPayment { .. } => "send_payment",
            Procedure::TransactSavings { .. } => "transact_savings",
            Procedure::WriteCheck { .. } => "write_check",
        }
    }

    fn footprint_into(&self, footprint: &mut Footprint) {
        let Tables { savings, checking } = self.tables;
        let mut add = |table, customer: u64, access| {
            footprint.add(table, Span::Key(Key::int(customer as i64)), access);
        };
        match self.procedure {
            Procedure::Amalgamate { from, to } => {
                add(savings, from, Access::Write);
                add(checking, from, Access::Write);
                add(checking, to, Access::Write);
            }
            Procedure::Balance { customer } => {
                add(savings, customer, Access::Read);
                add(checking, customer, Access::Read);
            }
            Procedure::DepositChecking { customer, .. } => add(checking, customer, Access::Write),
            Procedure::SendPayment { from, to, .. } => {
                add(checking, from, Access::Write);
                add(checking, to, Access::Write);
            }
            Procedure::TransactSavings { customer, .. } => add(savings, customer, Access::Write),
            Procedure::WriteCheck { customer, .. } => {
                add(savings, customer, Access::Read);
                add(checking, customer, Access::Write);
            }
        }
    }

    fn run<D: DataAccess>(&self, data: &mut D) -> Result<Outcome, D::Error> {
        let mut teller = Teller { data, tables: self.tables, problem: None };
        let outcome = teller.run(self.procedure)?;
        Ok(match teller.problem {
            Some(what) => Outcome::Inconsistent { what },
            None => outcome,
        })
    }
}

/// Runs a procedure. Records a missing or damaged account and treats its balance as 0.
struct Teller<'d, D> {
    data: &'d mut D,
    tables: Tables,
    problem: Option<String>,
}

impl<D: DataAccess> Teller<'_, D> {
    fn run(&mut self, procedure: Procedure) -> Result<Outcome, D::Error> {
        let Tables { savings, checking } = self.tables;
        let mut added = 0;
        match procedure {
            Procedure::Amalgamate { from, to } => {
                let saved = self.balance(savings, from)?;
                let ready = self.balance(checking, from)?;
                self.add(savings, from, -saved)?;
                self.add(checking, from, -ready)?;
                self.add(checking, to, saved.saturating_add(ready))?;
            }
            Procedure::Balance { customer } => {
                self.balance(savings, customer)?;
                self.balance(checking, customer)?;
            }
            Procedure::DepositChecking { customer, cents } => {
                self.add(checking, customer, cents)?;
                added = cents;
            }
            Procedure::SendPayment { from, to, cents } => {
                if self.balance(checking, from)? < cents {
                    return Ok(Outcome::Rollback { reason: "insufficient funds" });
                }
                self.add(checking, from, -cents)?;
                self.add(checking, to, cents)?;
            }
            Procedure::TransactSavings { customer, cents } => {
                if self.balance(savings, customer)?.saturating_add(cents) < 0 {
                    return Ok(Outcome::Rollback { reason: "insufficient funds" });
                }
                self.add(savings, customer, cents)?;
                added = cents;
            }
            Procedure::WriteCheck { customer, cents } => {
                let saved = self.balance(savings, customer)?;
                let funds = saved.saturating_add(self.balance(checking, customer)?);
                added = -cents - i64::from(funds < cents);
                self.add(checking, customer, added)?;
            }
        }
        Ok(Outcome::Commit { added })
    }

    fn balance(&mut self, table: TableId, customer: u64) -> Result<i64, D::Error> {
        let row = self.data.get(table, &Key::int(customer as i64))?;
        let (found, balance) = (row.is_some(), row.and_then(number));
        if balance.is_none() {
            self.report(table, customer, found);
        }
        Ok(balance.unwrap_or(0))
    }

    fn add(&mut self, table: TableId, customer: u64, cents: i64) -> Result<(), D::Error> {
        let mut sound = true;
        let change = |row: &mut [u8]| sound = add_to_number(row, cents);
        let found = self.data.update(table, &Key::int(customer as i64), change)?;
        if !found || !sound {
            self.report(table, customer, found);
        }
        Ok(())
    }

    fn report(&mut self, table: TableId, customer: u64, found: bool) {
        let what = if found { "damaged" } else { "missing" };
        self.problem.get_or_insert_with(|| format!("account {table}[{customer}] is {what}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Model, random};
    use std::collections::BTreeMap;

    const FIRST: TableId = TableId(3);

    fn bank(customers: u64) -> SmallBank {
        let options = SmallBankOptions { customers, ..SmallBankOptions::default() };
        SmallBank::new(options, FIRST).unwrap()
    }

    /// Runs a procedure on a bank of three customers, and returns its outcome and all balances.
    fn after(balances: [i64; 6], procedure: Procedure) -> (Outcome, Vec<i64>) {
        let bank = bank(3);
        let mut data = Model::loaded(&bank);
        let places: Vec<_> = data.rows().map(|(place, _)| place.clone()).collect();
        for ((table, key), cents) in places.iter().zip(balances) {
            data.put(*table, key, &cents.to_le_bytes()).unwrap();
        }
        let transaction = SmallBankTransaction { tables: bank.tables, procedure };
        let outcome = data.execute(&transaction).unwrap();
        (outcome, data.rows().filter_map(|(_, row)| number(row)).collect())
    }

    #[test]
    fn the_procedures_do_what_the_table_says() {
        // The savings of three customers, then their checking accounts.
        let before = [10, 20, 30, 1, 2, 3];
        let commit = |added| Outcome::Commit { added };
        let refused = Outcome::Rollback { reason: "insufficient funds" };
        let cases = [
            (Procedure::Amalgamate { from: 0, to: 2 }, commit(0), [0, 20, 30, 0, 2, 14]),
            (Procedure::Balance { customer: 1 }, commit(0), before),
            (
                Procedure::DepositChecking { customer: 1, cents: 5 },
                commit(5),
                [10, 20, 30, 1, 7, 3],
            ),
            (Procedure::SendPayment { from: 2, to: 0, cents: 3 }, commit(0), [10, 20, 30, 4, 2, 0]),
            (Procedure::SendPayment { from: 2, to: 0, cents: 4 }, refused.clone(), before),
            (
                Procedure::TransactSavings { customer: 0, cents: -10 },
                commit(-10),
                [0, 20, 30, 1, 2, 3],
            ),
            (Procedure::TransactSavings { customer: 0, cents: -11 }, refused, before),
            (
                Procedure::WriteCheck { customer: 0, cents: 11 },
                commit(-11),
                [10, 20, 30, -10, 2, 3],
            ),
            (
                Procedure::WriteCheck { customer: 0, cents: 12 },
                commit(-13),
                [10, 20, 30, -12, 2, 3],
            ),
        ];
        for (procedure, outcome, balances) in cases {
            assert_eq!(after(before, procedure), (outcome, balances.to_vec()), "{procedure:?}");
        }
    }

    #[test]
    fn money_is_conserved() {
        let mut bank = bank(20);
        let mut data = Model::loaded(&bank);
        assert_eq!(data.totals(), bank.loaded());
        let (mut rng, mut added, mut rollbacks) = (random(1), 0, 0);
        for _ in 0..20_000 {
            match data.execute(&bank.next(&mut rng)).unwrap() {
                Outcome::Commit { added: net } => added += i128::from(net),
                Outcome::Rollback { .. } => rollbacks += 1,
                Outcome::Inconsistent { what } => panic!("{what}"),
            }
        }
        assert!(rollbacks > 100, "{rollbacks}");
        assert_eq!(bank.verify(&mut data, added), Ok(Ok(())));
        assert!(bank.verify(&mut data, added + 1).unwrap().is_err());
        let found = bank.audits(7).into_iter().map(|audit| audit.run(&mut data).unwrap());
        assert_eq!(bank.judge(found.fold(Totals::default(), |a, b| a + b), added), Ok(()));

        data.delete(FIRST, &Key::int(4)).unwrap();
        let procedure = Procedure::Balance { customer: 4 };
        let transaction = SmallBankTransaction { tables: bank.tables, procedure };
        let Outcome::Inconsistent { what } = data.execute(&transaction).unwrap() else { panic!() };
        assert_eq!(what, "account t3[4] is missing");
    }

    #[test]
    fn the_mix_and_the_hot_spot_are_as_requested() {
        let hot_spot = Some(HotSpot { customers: 100, share: 0.9 });
        let options = SmallBankOptions { hot_spot, ..SmallBankOptions::default() };
        let mut bank = SmallBank::new(options, FIRST).unwrap();
        let mut rng = random(2);
        let (mut names, mut hot) = (BTreeMap::new(), 0);
        for _ in 0..20_000 {
            let transaction = bank.next(&mut rng);
            *names.entry(transaction.name()).or_insert(0) += 1;
            let footprint = transaction.footprint();
            let is_hot = |item: &isomer_design::Item| *item.span.start() < Key::int(100);
            hot += i32::from(footprint.items().iter().all(is_hot));
            assert!(footprint.items().len() <= 3);
        }
        assert!((17_700..18_300).contains(&hot), "{hot}");
        for (name, count) in names {
            let expected = if name == "send_payment" { 5000 } else { 3000 };
            assert!((expected - 250..expected + 250).contains(&count), "{name}: {count}");
        }
    }

    #[test]
    fn neighbours_transact_with_each_other_except_for_the_requested_share() {
        let blocks = Some(Blocks { customers: 10, across: 0.2 });
        let mix = [0, 0, 0, 1, 0, 0];
        let options =
            SmallBankOptions { customers: 101, blocks, mix, ..SmallBankOptions::default() };
        let bank = SmallBank::new(options, FIRST).unwrap();
        let (mut rng, mut across) = (random(3), 0);
        for _ in 0..20_000 {
            let (one, other) = bank.customers(&mut rng);
            assert!(one != other && other < 101);
            across += i32::from(one / 10 != other / 10);
        }
        // A fifth. By chance a tenth of it stays in its block; the last customer has no neighbour.
        assert!((3500..4100).contains(&across), "{across}");
    }

    #[test]
    fn the_balance_is_the_number_of_the_row() {
        let bank = bank(5);
        let tables: BTreeMap<_, _> = bank.tables().into_iter().collect();
        for LoadRow { table, key, row } in bank.load() {
            let values = tables[&table].decode_row(&key, &row).unwrap();
            assert_eq!(values[1], Value::Int64(number(&row).unwrap()));
        }
    }

    #[test]
    fn invalid_options_are_refused() {
        let refused = |options| SmallBank::new(options, FIRST).unwrap_err().to_string();
        let options = SmallBankOptions::default;
        assert_eq!(
            refused(SmallBankOptions { customers: 1, ..options() }),
            "1 customers of a bank: at least 2 are needed"
        );
        assert_eq!(
            refused(SmallBankOptions { mix: [0; 6], ..options() }),
            "0 as the sum of the mix: at least 1 are needed"
        );
        let hot_spot = Some(HotSpot { customers: 10, share: 1.5 });
        assert_eq!(
            refused(SmallBankOptions { hot_spot, ..options() }),
            "the share of the hot spot is 1.5: a share lies between 0 and 1"
        );
        assert!(refused(SmallBankOptions { cents_max: -4, ..options() }).starts_with("0 cents"));
    }
}
