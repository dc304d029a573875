//! Zones: backups are in another zone than their master, where there is one.

#![allow(clippy::disallowed_methods, reason = "a test of processes waits for them")]

mod cluster;
#[path = "../src/cluster/ports.rs"]
mod ports;
mod run;

use cluster::up::Up;
use cluster::wait_for;
use run::isomer;

#[test]
fn backups_are_in_another_zone_and_move_there_when_zones_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["--when-one-ends", "leave"];
    let config = folder.path().join("cluster.toml");
    // Without zones, each other process gets half of the backups.
    let up = Up::start(folder.path(), &flags);
    let mut client = up.client(folder.path());
    for table in 0..4 {
        let create = format!("create table before{table} (id int primary key)");
        client.batch_execute(&create).expect("a table");
    }
    let near = "select count(*) from isomer.partitions where master = 's1' and replicas = 's2'";
    let of = |client: &mut postgres::Client| -> i64 {
        client.query_one(near, &[]).expect("the view is there").get(0)
    };
    assert!(of(&mut client) > 0);
    drop(client);
    up.stop();
    let mut text = std::fs::read_to_string(&config).expect("a file");
    for (name, zone) in [("serve", "east"), ("node1", "east"), ("node2", "west")] {
        let named = format!("name = \"{name}\"\n");
        assert!(text.contains(&named), "{text}");
        text = text.replace(&named, &format!("{named}zone = \"{zone}\"\n"));
    }
    let wrong = folder.path().join("wrong.toml");
    std::fs::write(&wrong, text.replacen("zone = \"west\"\n", "", 1)).expect("it can be written");
    let refused = isomer(&["cluster", "status", "--config", &wrong.display().to_string()]);
    assert!(
        refused.err.contains("some processes have a `zone`"),
        "{} {}",
        refused.out,
        refused.err
    );
    std::fs::write(&config, text).expect("it can be written");
    let up = Up::start(folder.path(), &flags);
    let mut client = up.client(folder.path());
    client.batch_execute("alter system set autopilot = off").expect("a setting");
    let zones = client.query("select site || ' ' || zone from isomer.sites order by site", &[]);
    let zones = zones.expect("the view is there");
    let zones: Vec<String> = zones.iter().map(|row| row.get(0)).collect();
    assert_eq!(zones, ["s1 east", "s2 east", "s3 west"]);
    wait_for("the backups have moved to the other zone", || of(&mut client) == 0);
    for table in 0..4 {
        let create = format!("create table after{table} (id int primary key)");
        client.batch_execute(&create).expect("a table");
    }
    let far = "select count(*) from isomer.partitions where master = 's1' and replicas = 's3'";
    let far: i64 = client.query_one(far, &[]).expect("the view is there").get(0);
    assert_eq!((far, of(&mut client)), (8, 0));
}
