//! The same with an S3 service, if the environment has `ISOMER_S3=s3://bucket/prefix` and the
//! settings for it. Otherwise the test passes without a check.

#![cfg(feature = "s3")]

use isomer_cluster::{CheckpointStore, DatabaseId};
use isomer_design::SiteId;
use isomer_objects::Objects;
use std::ops::ControlFlow;

#[test]
fn a_checkpoint_in_a_bucket_is_found_and_replaces_the_older_one() {
    let Ok(url) = std::env::var("ISOMER_S3") else {
        eprintln!("ISOMER_S3 names no bucket: this test passes without having looked");
        return;
    };
    let objects = || Objects::at(&url).expect("its settings are in the environment");
    let (database, site) = (DatabaseId(7), SiteId(3));
    objects().mark(database).expect("it can be written");
    assert!(objects().has_mark(database).expect("it can be asked"));
    assert!(!objects().has_mark(DatabaseId(8)).expect("it can be asked"));
    objects().try_to_write(database, site).expect("it can be written");
    let open = || objects().open(database, site).expect("it can be listed");
    let before = open().newest().map_or(0, |newest| newest.position);
    let frame = vec![7; 3 << 20];
    for position in [before + 10, before + 20] {
        let checkpoints = open();
        let mut draft = checkpoints.begin(position, 0).expect("a draft");
        (0..5).for_each(|_| draft.append(&frame).expect("it is written"));
        draft.settle().expect("it is written");
        draft.publish().expect("it is written, and the older one removed");
        let (found, mut frames) = (open(), 0);
        let read = found.read(&mut |read| {
            assert!(read == frame);
            frames += 1;
            ControlFlow::Continue(())
        });
        read.expect("it is whole");
        assert_eq!((found.newest().expect("it is there").position, frames), (position, 5));
    }
}
