//! Checkpoints of a site in an object store are atomic, with failures and concurrent writers.

mod store;

use isomer_cluster::{CheckpointStore, DatabaseId};
use isomer_design::SiteId;
use isomer_log::{CheckpointError, Checkpoints, Draft, Position};
use isomer_objects::Objects;
use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::Trouble;

const DATABASE: DatabaseId = DatabaseId(0xabc);
const SITE: SiteId = SiteId(3);

fn open(objects: &Objects) -> Arc<dyn Checkpoints> {
    objects.open(DATABASE, SITE).expect("nothing fails")
}

/// A checkpoint of two parts, not published yet.
fn draft(
    checkpoints: &dyn Checkpoints,
    position: Position,
    frame: &[u8],
) -> Result<Box<dyn Draft>, CheckpointError> {
    let mut draft = checkpoints.begin(position, 100)?;
    draft.append(frame)?;
    draft.settle()?;
    draft.append(b"")?;
    draft.append(b"the last")?;
    draft.settle()?;
    Ok(draft)
}

fn write(
    checkpoints: &dyn Checkpoints,
    position: Position,
    frame: &[u8],
) -> Result<(), CheckpointError> {
    draft(checkpoints, position, frame)?.publish()
}

fn read(checkpoints: &dyn Checkpoints) -> Result<Vec<Vec<u8>>, CheckpointError> {
    let mut frames = Vec::new();
    checkpoints.read(&mut |frame| {
        frames.push(frame.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(frames)
}

fn frames(frame: &[u8]) -> Vec<Vec<u8>> {
    vec![frame.to_vec(), Vec::new(), b"the last".to_vec()]
}

fn newest(objects: &Objects) -> Option<(Position, Vec<Vec<u8>>)> {
    let checkpoints = open(objects);
    let position = checkpoints.newest()?.position;
    Some((position, read(&*checkpoints).expect("it is whole")))
}

fn in_folder() -> (tempfile::TempDir, Objects) {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("file://{}", folder.path().display());
    let objects = Objects::at(&url).expect("it is there");
    (folder, objects)
}

/// All files below a folder.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let entries =
        fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("one").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    files.into_iter().chain(folders.iter().flat_map(|folder| self::files(folder))).collect()
}

fn sites_folder(folder: &Path) -> PathBuf {
    folder.join(DATABASE.to_string()).join("site-3")
}

#[test]
fn the_newest_checkpoint_is_found_from_anywhere_and_older_ones_are_removed() {
    let (folder, objects) = in_folder();
    assert_eq!(newest(&objects), None);
    let checkpoints = open(&objects);
    write(&*checkpoints, 0x70, b"one").expect("it is written");
    assert_eq!(newest(&objects), Some((0x70, frames(b"one"))));
    write(&*checkpoints, 0x1f0, b"two").expect("it is written");
    assert_eq!(newest(&objects), Some((0x1f0, frames(b"two"))));
    assert_eq!(read(&*checkpoints).expect("it is whole"), frames(b"two"));
    assert_eq!(files(folder.path()).len(), 3, "two parts and `whole`");
    assert_eq!(fs::read_dir(sites_folder(folder.path())).expect("it is there").count(), 1);
    // Another site and another database have checkpoints of their own.
    let of_others = [(DATABASE, SiteId(30)), (DatabaseId(1), SITE)];
    assert!(of_others.iter().all(|(database, site)| {
        objects.open(*database, *site).expect("nothing fails").newest().is_none()
    }));
}

#[test]
fn dropped_drafts_leave_nothing_and_those_of_killed_processes_are_removed_later() {
    let (folder, objects) = in_folder();
    let checkpoints = open(&objects);
    drop(draft(&*checkpoints, 0x70, b"given up").expect("it is written"));
    assert_eq!(files(folder.path()).len(), 0);
    std::mem::forget(draft(&*checkpoints, 0x70, b"killed").expect("it is written"));
    let left = files(folder.path());
    assert_eq!(left.len(), 2);
    // The state that a process killed while writing a file leaves.
    let half = left.first().expect("two").with_file_name("part-00002#1");
    fs::write(half, b"half").expect("a file");
    assert_eq!(newest(&objects), None);
    write(&*checkpoints, 0x90, b"whole").expect("it is written");
    assert_eq!(files(folder.path()).len(), 3);
    assert_eq!(newest(&objects), Some((0x90, frames(b"whole"))));
}

#[test]
fn a_process_that_has_lost_its_site_replaces_no_object_of_the_new_owner() {
    let (_folder, objects) = in_folder();
    let (before, after) = (open(&objects), open(&objects));
    write(&*before, 0x40, b"before").expect("it is written");
    // It is paused just before it publishes the next one.
    let late = draft(&*before, 0x70, b"late").expect("it is written");
    let twin = draft(&*before, 0x90, b"twin").expect("it is written");
    write(&*after, 0x90, b"after").expect("it is written");
    late.publish().expect("it is valid, and not the newest");
    assert_eq!(newest(&objects), Some((0x90, frames(b"after"))));
    // Two checkpoints of one position are both valid.
    twin.publish().expect("it is valid");
    let (position, found) = newest(&objects).expect("one of them");
    assert!(position == 0x90 && [frames(b"after"), frames(b"twin")].contains(&found));
    write(&*after, 0xb0, b"on").expect("it is written");
    assert_eq!(newest(&objects), Some((0xb0, frames(b"on"))));
}

#[test]
fn damaged_checkpoints_are_named_with_a_remedy() {
    let (folder, objects) = in_folder();
    write(&*open(&objects), 0x70, b"one").expect("it is written");
    let opened = || match objects.open(DATABASE, SITE) {
        Ok(checkpoints) => read(&*checkpoints).map(drop),
        Err(error) => Err(error),
    };
    for file in files(folder.path()) {
        let was = fs::read(&file).expect("it is there");
        let mut changed = was.clone();
        *changed.last_mut().expect("no file is empty") ^= 1;
        for damage in [Some(&was[..was.len() - 1]), Some(&[][..]), Some(&changed), None] {
            match damage {
                Some(bytes) => fs::write(&file, bytes).expect("a file"),
                // Without its last object there is no checkpoint.
                None if file.ends_with("whole") => continue,
                None => fs::remove_file(&file).expect("a file"),
            }
            let said = opened().expect_err("it is damaged").to_string();
            let names = said.contains("file:///") && said.contains("0000000000000070-");
            assert!(names && said.contains("is damaged") && said.contains("bring back"), "{said}");
        }
        fs::write(&file, was).expect("a file");
        opened().expect("it is whole again");
    }
}

#[test]
fn a_store_that_fails_at_any_request_leaves_a_whole_checkpoint() {
    let mut failures = 0;
    for after in 0.. {
        let trouble = Arc::new(Trouble::default());
        let objects = Objects::over(trouble.clone(), "memory:").expect("a store");
        let checkpoints = open(&objects);
        write(&*checkpoints, 70, b"old").expect("it is written");
        trouble.fails(after, 1);
        let tried = write(&*checkpoints, 90, b"new");
        trouble.heals();
        let (position, found) = newest(&objects).expect("one of them is whole");
        let is_new = position == 90;
        assert_eq!(found, frames(if is_new { b"new" } else { b"old" }));
        assert!(is_new || tried.is_err());
        // The log may be cut at this position.
        assert_eq!(checkpoints.newest().expect("the same").position, position);
        write(&*checkpoints, 110, b"next").expect("it is written");
        assert_eq!(newest(&objects), Some((110, frames(b"next"))));
        let Err(error) = tried else { break };
        let said = error.to_string();
        assert!(said.contains("memory:/") && said.contains("it was told to fail"), "{said}");
        failures += 1;
    }
    assert!(failures > 4, "two parts, one object that names them, a list, older ones: {failures}");
}

#[test]
fn a_large_checkpoint_is_written_in_parts_that_fit_into_memory() {
    let trouble = Arc::new(Trouble::default());
    let objects = Objects::over(trouble.clone(), "memory:").expect("a store");
    let checkpoints = open(&objects);
    let mut draft = checkpoints.begin(70, 0).expect("a draft");
    let frame = vec![7; 1 << 20];
    // No `settle` before the end.
    (0..40).for_each(|_| draft.append(&frame).expect("it is written"));
    draft.settle().expect("it is written");
    draft.publish().expect("it is written");
    assert!(trouble.longest() < 10 << 20, "{}", trouble.longest());
    let (mut count, checkpoints) = (0, open(&objects));
    let counted = checkpoints.read(&mut |read| {
        assert!(read == frame);
        count += 1;
        ControlFlow::Continue(())
    });
    counted.expect("it is whole");
    assert_eq!(count, 40);
}

#[test]
fn a_bad_address_is_refused_with_a_good_example() {
    let refused = |url: &str| Objects::at(url).err().expect("it is none");
    assert!(refused("gs://shop").contains("file:///shared/shop"));
    assert!(refused("/shared/shop").contains("file:///shared/shop"));
    assert!(refused("file://shared/shop").contains("three slashes"));
    assert!(refused("file:///is/not/there").contains("mount what all machines reach"));
    assert!(refused("s3://").contains("names no bucket"));
    if cfg!(not(feature = "s3")) {
        assert!(refused("s3://bucket/shop").contains("--features s3"));
    }
}
