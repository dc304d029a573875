//! The work of the clients, and the content that a database must have once it is acknowledged.

use crate::chance::Chance;
use crate::server::Server;
use postgres::{Client, Error};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const TABLES: &str = "
    create table accounts (id int primary key, v int not null);
    create table tellers (id int primary key, n int not null);
    insert into accounts select n, 100 from generate_series(0, 59) n;
    insert into tellers select n, 0 from generate_series(0, 2) n;
    alter table accounts split at (20); alter table accounts split at (40);
    alter table accounts remaster at (20) to site 2; alter table accounts remaster at (40) to site 3";
const TELLERS: i64 = 3;
const ACCOUNTS: i64 = 60;
const MONEY: i64 = 6000;
const WORK: Duration = Duration::from_secs(3);

/// An acknowledged step, and the length of the trace after it.
struct Done<T> {
    what: T,
    by: u64,
}

impl<T> Done<T> {
    fn new(what: T, server: &Server) -> Done<T> {
        Done { what, by: server.traced() }
    }
}

/// Everything that was acknowledged.
pub(crate) struct Known {
    /// The length of the trace after the tables and their first rows.
    begun: u64,
    /// The transfers of each teller.
    transfers: Vec<Vec<Done<i64>>>,
    /// Created (true) and dropped tables, by number.
    tables: Vec<Done<(i64, bool)>>,
}

impl Known {
    /// Lets clients work for [`WORK`].
    pub(crate) fn of_work(server: &Server) -> Known {
        server.client().batch_execute(TABLES).expect("tables");
        let (begun, is_over) = (server.traced(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let is_over = &is_over;
            let tellers = (0..TELLERS).map(|at| scope.spawn(move || transfer(server, at, is_over)));
            let tellers: Vec<_> = tellers.collect();
            let definer = scope.spawn(move || define(server, is_over));
            std::thread::sleep(WORK);
            is_over.store(true, Ordering::Relaxed);
            let transfers = tellers.into_iter().map(|one| one.join().expect("a teller")).collect();
            Known { begun, transfers, tables: definer.join().expect("it has made tables") }
        })
    }

    /// The first fault of a database that must have everything that was acknowledged within the
    /// first `cut` bytes of the trace.
    pub(crate) fn wrong(&self, client: &mut Client, cut: u64) -> Option<String> {
        if cut < self.begun {
            return None;
        }
        let mut number = |query: &str| client.query_one(query, &[]).map(|row| row.get::<_, i64>(0));
        let sum = number("select sum(v) from accounts");
        if !matches!(sum, Ok(MONEY)) {
            return Some(format!("the accounts have {sum:?} of {MONEY}"));
        }
        for (at, all) in self.transfers.iter().enumerate() {
            let due = all.iter().filter(|done| done.by <= cut).count() as i64;
            let found = number(&format!("select n::bigint from tellers where id = {at}"));
            if !matches!(&found, Ok(found) if (due..=all.len() as i64).contains(found)) {
                return Some(format!("teller {at} has made {due} transfers: {found:?}"));
            }
        }
        let wrong = (0..self.tables.len()).find_map(|at| self.wrong_table(at, cut, &mut number));
        let goes_on =
            "update accounts set v = v; create table more (id int); drop table more; checkpoint";
        wrong.or_else(|| client.batch_execute(goes_on).err().map(|error| format!("{error:?}")))
    }

    fn wrong_table(
        &self,
        at: usize,
        cut: u64,
        number: &mut impl FnMut(&str) -> Result<i64, Error>,
    ) -> Option<String> {
        let Done { what: (table, is_made), by } = self.tables[at];
        let is_dropped_later =
            self.tables[at + 1..].iter().any(|later| later.what == (table, false));
        if by > cut {
            return None;
        }
        let found = number(&format!("select count(*) from made_{table} where v = 'it is whole'"));
        match (is_made, &found) {
            (true, Ok(1)) | (false, Err(_)) => None,
            (true, Err(_)) if is_dropped_later => None,
            _ => Some(format!("table {table} was made: {is_made}; it has {found:?}")),
        }
    }
}

/// Makes the transfers of one teller, most of them over two sites.
fn transfer(server: &Server, teller: i64, is_over: &AtomicBool) -> Vec<Done<i64>> {
    let (mut client, mut chance) = (server.client(), Chance::new(7, teller as u64));
    let mut done = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let n = 1 + done.len() as i64;
        let (from, to) = (chance.below(ACCOUNTS), chance.below(ACCOUNTS));
        let mut transfer = || {
            let mut txn = client.transaction()?;
            for (account, by) in [(from, -1), (to, 1)] {
                txn.execute(
                    "update accounts set v = v + $2 where id = $1",
                    &[&(account as i32), &by],
                )?;
            }
            txn.execute(
                "update tellers set n = $2 where id = $1",
                &[&(teller as i32), &(n as i32)],
            )?;
            txn.commit()
        };
        // A transfer is repeated after a serialization failure or a deadlock.
        while let Err(error) = transfer() {
            let code = error.code().map(|code| code.code().to_owned());
            assert!(matches!(code.as_deref(), Some("40001" | "40P01")), "{error:?}");
        }
        done.push(Done::new(n, server));
    }
    done
}

/// Creates and drops tables, moves a partition, and makes checkpoints.
fn define(server: &Server, is_over: &AtomicBool) -> Vec<Done<(i64, bool)>> {
    let (mut client, mut done) = (server.client(), Vec::new());
    for round in (0..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
        let made = format!(
            "begin; create table made_{round} (id int primary key, v text);
             insert into made_{round} values ({round}, 'it is whole'); commit"
        );
        client.batch_execute(&made).expect("a table");
        done.push(Done::new((round, true), server));
        if round % 3 == 2 {
            let dropped = format!("drop table made_{}", round - 2);
            client.batch_execute(&dropped).expect("it was made");
            done.push(Done::new((round - 2, false), server));
        }
        // An error means that the master is there already.
        let moved = format!("alter table accounts remaster at (20) to site {}", 1 + round % 3);
        let _ = client.batch_execute(&moved);
        if round % 4 == 0 {
            client.batch_execute("checkpoint").expect("there is room");
        }
    }
    done
}
