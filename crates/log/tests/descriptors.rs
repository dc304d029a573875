//! A log whose process has used up its file descriptors. The limit belongs to the process, so this
//! test has a binary of its own.

use isomer_log::{FileLog, Lack, Log, LogError, Options};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;

/// Clients hold all other descriptors: the log creates one segment after another with its reserve.
#[test]
fn a_log_works_with_all_other_descriptors_taken() {
    let folder = tempfile::tempdir().unwrap();
    let usual = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: usual.maximum }).unwrap();
    let options = Options { segment_bytes: 1000, ..Options::default() };
    let (log, _) = FileLog::open(folder.path(), options).unwrap();
    let mut taken = Vec::new();
    for number in 0..40u8 {
        while let Ok(file) = File::open("/dev/null") {
            taken.push(file);
        }
        log.append(&[number; 300]).unwrap();
        log.sync().unwrap();
    }

    // Without a sync in between, each append needs a segment at once: more than the reserve holds.
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    let refused = (0..10).find_map(|_| log.append(&[0; 900]).err());
    let Some(LogError::NoRoom { lack, what }) = refused else { panic!("{refused:?}") };
    assert_eq!(lack, Lack::Handles, "{what}");
    let end = log.sync().unwrap();
    assert_eq!(end, log.end(), "earlier frames are durable");
    log.append(&[1; 900]).expect("the sync has closed files");
    drop(taken);
    log.append(&[2; 900]).unwrap();
    log.sync().unwrap();
    setrlimit(Resource::Nofile, usual).unwrap();
}
