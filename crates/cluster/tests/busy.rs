//! Processors are busy for the sites whose work it is, refreshes of replicas as well.

use isomer_cluster::{Database, Options};
use isomer_design::{Change, Column, ColumnType, Footprint, Key, Schema, SiteId};
use isomer_strategy::Static;

const MASTER: SiteId = SiteId(1);
const REPLICAS: [SiteId; 2] = [SiteId(2), SiteId(3)];
const IDLE: SiteId = SiteId(4);
const PARTITIONS: i64 = 16;

#[test]
fn sites_that_refresh_replicas_are_busier_than_one_that_has_none() {
    let db = Database::open(Options::in_memory(4).strategy(Static)).expect("in memory");
    let columns = vec![Column::new("id", ColumnType::Int64), Column::new("n", ColumnType::Int64)];
    let schema = Schema::new("counters", columns, &["id"]).expect("the columns fit together");
    let start = |at: i64| if at == 0 { Key::min() } else { Key::int(at) };
    let placement: Vec<_> = (0..PARTITIONS).map(|at| (start(at), MASTER)).collect();
    let table = db.create_table(schema, &placement).expect("a valid table");
    for (start, _) in &placement {
        for site in REPLICAS {
            let change = Change::AddReplica { table, start: start.clone(), site };
            db.change(change, "a test").expect("the site has none yet");
        }
    }
    let busy = || {
        let reports = db.sites();
        move |site: SiteId| {
            let report = reports.iter().find(|report| report.site == site);
            report.expect("there is one").busy.unwrap_or(0.0)
        }
    };
    let mut session = db.session();
    let keys: Vec<Key> = (0..PARTITIONS).map(Key::int).collect();
    let footprint = keys.iter().fold(Footprint::new(), |all, key| all.write(table, key.clone()));
    for n in 0_i64.. {
        let write = db.run(&mut session, &footprint, |txn| {
            keys.iter().try_for_each(|key| txn.put(table, key, &n.to_le_bytes()))
        });
        write.expect("its master runs it");
        let busy = busy();
        let has_weight = |site: SiteId| busy(site) > 2.0 * busy(IDLE) && busy(site) > 0.01;
        if has_weight(MASTER) && REPLICAS.into_iter().all(has_weight) {
            return;
        }
    }
}
