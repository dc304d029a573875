//! A running transaction: its statements, prepared once for each terminal, and steps that several
//! of the five transactions share.

use super::values::Cents;
use postgres::types::ToSql;
use postgres::{Error, Row, Statement, Transaction};
use std::collections::HashMap;

pub(super) type Param<'p> = &'p (dyn ToSql + Sync);

/// A transaction that runs.
pub(super) struct Running<'t> {
    pub(super) txn: Transaction<'t>,
    pub(super) statements: &'t mut HashMap<String, Statement>,
}

impl Running<'_> {
    fn prepared(&mut self, text: &str) -> Result<Statement, Error> {
        if let Some(statement) = self.statements.get(text) {
            return Ok(statement.clone());
        }
        let statement = self.txn.prepare(text)?;
        self.statements.insert(text.to_owned(), statement.clone());
        Ok(statement)
    }

    pub(super) fn query(&mut self, text: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Error> {
        let statement = self.prepared(text)?;
        self.txn.query(&statement, params)
    }

    pub(super) fn one(&mut self, text: &str, params: &[Param<'_>]) -> Result<Row, Error> {
        let statement = self.prepared(text)?;
        self.txn.query_one(&statement, params)
    }

    pub(super) fn execute(&mut self, text: &str, params: &[Param<'_>]) -> Result<u64, Error> {
        let statement = self.prepared(text)?;
        self.txn.execute(&statement, params)
    }
}

/// `($1, $2), ($3, $4)`: `count` tuples of `width` parameters, numbered from `from + 1`.
pub(super) fn tuples(count: usize, width: usize, from: usize) -> String {
    let tuple = |at: usize| {
        let places = (1..=width).map(|place| format!("${}", from + at * width + place));
        format!("({})", places.collect::<Vec<String>>().join(", "))
    };
    (0..count).map(tuple).collect::<Vec<String>>().join(", ")
}

/// The prices of an order's items.
pub(super) fn prices(
    run: &mut Running<'_>,
    lines: &[(i32, i32, i32)],
) -> Result<HashMap<i32, Cents>, Error> {
    let items: Vec<Param<'_>> = lines.iter().map(|(_, item, _)| item as Param<'_>).collect();
    let list: Vec<String> = (1..=items.len()).map(|place| format!("${place}")).collect();
    let text = format!(
        "SELECT i_price, i_name, i_data, i_id FROM item WHERE i_id IN ({})",
        list.join(", ")
    );
    let rows = run.query(&text, &items)?;
    Ok(rows.iter().map(|row| (row.get(3), row.get(0))).collect())
}

/// Takes the lines of an order from the stock; returns the text that is printed on each line.
pub(super) fn take_from_stock(
    run: &mut Running<'_>,
    lines: &[(i32, i32, i32)],
    w: i32,
    d: i32,
) -> Result<HashMap<i32, String>, Error> {
    let mut keys: Vec<Param<'_>> = Vec::new();
    lines.iter().for_each(|(supplier, item, _)| keys.extend([supplier as Param<'_>, item]));
    let text = format!(
        "SELECT s_i_id, s_quantity, s_data, s_dist_{d:02} FROM stock \
         WHERE (s_w_id, s_i_id) IN ({}) FOR UPDATE",
        tuples(lines.len(), 2, 0)
    );
    let rows = run.query(&text, &keys)?;
    let mut places = HashMap::new();
    let mut left: HashMap<i32, i32> = HashMap::new();
    for row in &rows {
        left.insert(row.get(0), row.get(1));
        places.insert(row.get(0), row.get::<_, String>(3));
    }
    for (supplier, item, quantity) in lines {
        let rest = left[item] - quantity;
        let rest = if rest < 10 { rest + 91 } else { rest };
        run.execute(
            "UPDATE stock SET s_quantity = $1, s_ytd = s_ytd + $2, s_order_cnt = s_order_cnt + 1, \
             s_remote_cnt = s_remote_cnt + $3 WHERE s_i_id = $4 AND s_w_id = $5",
            &[&rest, quantity, &i32::from(*supplier != w), item, supplier],
        )?;
    }
    Ok(places)
}

/// Clause 2.5.2.2: the middle one, by first name, of the customers with a last name.
pub(super) fn in_the_middle(
    run: &mut Running<'_>,
    w: i32,
    d: i32,
    name: &str,
) -> Result<i32, Error> {
    let all = run.query(
        "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 \
         ORDER BY c_first",
        &[&w, &d, &name],
    )?;
    Ok(all[all.len() / 2].get(0))
}
