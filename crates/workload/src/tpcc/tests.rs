use super::rows::{key, price};
use super::*;
use crate::{DataAccess, Model, Outcome, Transaction, random};

const FIRST: TableId = TableId(1);

fn small(mix: [u32; 5]) -> Tpcc {
    let options =
        TpccOptions { warehouses: 3, customers: 30, items: 200, mix, ..TpccOptions::default() };
    Tpcc::new(options, FIRST).unwrap()
}

fn examined(tpcc: &Tpcc, data: &Model) -> Result<(), String> {
    let mut examiner = tpcc.examiner();
    for ((table, key), row) in data.rows() {
        examiner.see(*table, key, row);
    }
    examiner.verdict()
}

/// Runs transactions on a model, which also checks their footprints.
fn ran(tpcc: &mut Tpcc, count: usize) -> (Model, i128, BTreeMap<&'static str, usize>) {
    let mut data = Model::loaded(tpcc);
    let (mut rng, mut added, mut kinds) = (random(5), 0, BTreeMap::new());
    for _ in 0..count {
        let transaction = tpcc.next(&mut rng);
        match data.execute(&transaction).unwrap() {
            Outcome::Commit { added: net } => {
                added += i128::from(net);
                *kinds.entry(transaction.name()).or_default() += 1;
            }
            Outcome::Rollback { .. } => *kinds.entry("rolled back").or_default() += 1,
            Outcome::Inconsistent { what } => panic!("{}: {what}", transaction.name()),
        }
    }
    (data, added, kinds)
}

#[test]
fn rows_are_as_the_schema_encodes_them_and_in_order() {
    let tpcc = small(TpccOptions::SHORT_MIX);
    let tables = tpcc.tables;
    for (table, numbers) in [(tables.district, vec![1, 2, 3]), (tables.new_order, vec![1])] {
        assert_eq!(tables.row(table, &numbers), tables.encoded(table, &numbers));
    }
    assert!(tpcc.load().is_sorted_by(|a, b| (a.table, &a.key) < (b.table, &b.key)));
    let borders = tpcc.borders(100);
    assert_eq!(borders[&tables.district].len(), 29, "a partition for each district");
    assert_eq!(borders[&tables.stock].len(), 5);
    assert!(borders.values().all(|keys| keys.is_sorted()));
}

#[test]
fn the_full_mix_keeps_the_sum_and_the_conditions() {
    let mut tpcc = small(TpccOptions::FULL_MIX);
    let (mut data, added, kinds) = ran(&mut tpcc, 3000);
    assert_eq!(kinds.len(), 6, "{kinds:?}");
    assert!(kinds["delivery"] > 60 && kinds["new_order"] > 1000, "{kinds:?}");
    assert_eq!(tpcc.verify(&mut data, added), Ok(Ok(())));
    assert!(tpcc.verify(&mut data, added + 1).unwrap().is_err());
    assert_eq!(examined(&tpcc, &data), Ok(()));
}

#[test]
fn a_violated_condition_is_found() {
    let mut tpcc = small(TpccOptions::SHORT_MIX);
    let (data, ..) = ran(&mut tpcc, 200);
    let tables = tpcc.tables;
    let broken = |change: &dyn Fn(&mut Model)| {
        let mut data = data.clone();
        change(&mut data);
        examined(&tpcc, &data).unwrap_err()
    };
    let lost =
        broken(&|data| assert!(data.delete(tables.order_line, &key([0, 0, 29, 1])).unwrap()));
    assert!(lost.starts_with("order 0.0.29 does not agree with itself"), "{lost}");
    let richer = |row: &mut [u8]| rows::add(row, 0, 100);
    let money = broken(&|data| assert!(data.update(tables.warehouse, &key([1]), richer).unwrap()));
    assert!(money.starts_with("warehouse 1 has sold for"), "{money}");
    let owes =
        broken(&|data| assert!(data.update(tables.customer, &key([1, 1, 1]), richer).unwrap()));
    assert!(owes.starts_with("customers' balances are"), "{owes}");
}

#[test]
fn an_order_is_a_function_of_its_number_with_the_requested_shares() {
    let options = TpccOptions { warehouses: 4, remote_orders: 0.3, ..TpccOptions::default() };
    let orders: Vec<Order> = (300..2300).map(|number| Order::of(&options, 2, 7, number)).collect();
    let remote = |order: &&Order| order.lines.iter().filter(|line| line.supplier != 2).count() == 1;
    let share = orders.iter().filter(remote).count() as f64 / 2000.0;
    assert!((share - 0.3).abs() < 0.04, "{share}");
    assert_eq!(orders[5], Order::of(&options, 2, 7, 305));
    for order in &orders {
        assert!((5..=15).contains(&order.lines.len()) && order.customer < 300);
        assert!(order.lines.iter().all(|line| line.item < 10_000 && price(line.item) >= 100));
    }
}

#[test]
fn warehouses_follow_the_skew_and_hot_ones_get_their_share() {
    let skew = Skew::giving(2.0 / 3.0, 8, 24).unwrap();
    let hot = Some(HotWarehouses { count: 4, share: 0.6 });
    for (hot, first, expected) in [(None, 8, 2.0 / 3.0), (hot, 4, 0.6 + 0.4 * 0.45)] {
        let options = TpccOptions { warehouses: 24, skew, hot, ..TpccOptions::default() };
        let mut tpcc = Tpcc::new(options, FIRST).unwrap();
        let mut rng = random(5);
        let chosen = (0..20_000).filter(|_| tpcc.next(&mut rng).warehouse < first).count();
        let share = chosen as f64 / 20_000.0;
        assert!((share - expected).abs() < 0.03, "{hot:?}: {share} of {expected}");
    }
}

#[test]
fn invalid_options_are_refused() {
    let refused = |options| Tpcc::new(options, FIRST).unwrap_err().to_string();
    let none = TpccOptions { warehouses: 0, ..TpccOptions::default() };
    assert_eq!(refused(none), "0 warehouses: at least 1 are needed");
    let share = TpccOptions { remote_orders: 2.0, ..TpccOptions::default() };
    assert!(refused(share).starts_with("the share of remote orders is 2"));
    let hot = Some(HotWarehouses { count: 9, share: 0.5 });
    let hot = TpccOptions { hot, ..TpccOptions::default() };
    assert_eq!(refused(hot), "9 hot warehouses: at most 8 are possible");
}
