//! Random crashes and damage, from seeds.
//!
//! The invariant checked: after any crash the log opens, and holds whole frames, a prefix of those
//! appended that includes every durable one. Damage to durable frames is refused, without changing
//! the disk, whenever a later write or the watermark proves it.

use super::disk::{Disk, Fault, SECTOR_BYTES};
use super::{SplitMix, frames};
use crate::file::format::SEGMENT_HEADER_BYTES;
use crate::file::recover::SPARE_NAME;
use crate::file::watermark::WATERMARK_NAME;
use crate::file::writer::PIECE_BYTES;
use crate::{Durability, FileLog, Log, LogError, OpenError, Options, Position};

/// The frames appended, and the position up to which they are durable.
#[derive(Default)]
struct Model {
    frames: Vec<(Position, Vec<u8>)>,
    durable: Position,
}

impl Model {
    /// Checks what a log holds after a crash, and makes that the model.
    fn check_recovered(&mut self, log: &FileLog, context: &str) {
        assert!(log.end() >= self.durable, "{context}: lost durable frames");
        let begin = log.begin();
        let expected: Vec<_> = self
            .frames
            .iter()
            .filter(|(position, _)| (begin..log.end()).contains(position))
            .cloned()
            .collect();
        assert_eq!(frames(log, begin), expected, "{context}");
        self.frames = expected;
        self.durable = log.end();
    }
}

fn options(rng: &mut SplitMix) -> Options {
    let durability = if rng.chance(4) { Durability::None } else { Durability::Commit };
    let segment_bytes = 100 + rng.below(1500) as u64;
    Options { segment_bytes, backlog_bytes: 4096, durability, ..Options::default() }
}

/// A power cut: each unstored sector, and each suffix of the name changes, may survive or not.
fn power_cut(disk: &Disk, rng: &mut SplitMix) -> Disk {
    let name_changes = rng.below(disk.name_changes() + 1);
    let likely = rng.below(4);
    let mut keep = |cache: &[u8], stored: &[u8]| {
        let bytes = if rng.chance(2) { cache.len() } else { stored.len() };
        let mut left = stored.to_vec();
        left.resize(bytes, 0);
        for (at, sector) in left.chunks_mut(SECTOR_BYTES).enumerate() {
            if rng.below(4) >= likely {
                let at = at * SECTOR_BYTES;
                sector.copy_from_slice(&cache[at..at + sector.len()]);
            }
        }
        left
    };
    disk.after_crash(&mut keep, name_changes)
}

/// Appends, syncs and truncates at random.
fn work(log: &FileLog, model: &mut Model, rng: &mut SplitMix) {
    for _ in 0..rng.below(60) {
        match rng.below(12) {
            0..8 => {
                let length = if rng.chance(20) { rng.below(3000) } else { rng.below(120) };
                let byte = rng.next() as u8;
                let payload = vec![byte; length];
                let position = log.end();
                match log.append(&payload) {
                    Ok(_) => model.frames.push((position, payload)),
                    Err(LogError::Backlog { .. }) => assert_eq!(log.end(), position),
                    Err(error) => panic!("{error}"),
                }
            }
            8..11 => {
                log.sync().unwrap();
            }
            _ => {
                let below = log.begin() + rng.below((log.end() - log.begin()) as usize + 1) as u64;
                log.truncate_before(below).unwrap();
                assert!(log.begin() <= below);
            }
        }
    }
}

/// Appends and syncs on a disk that refuses syncs or writes.
fn work_until_failure(log: &FileLog, model: &mut Model) {
    let (position, durable) = (log.end(), log.durable());
    if log.append(b"too late").is_ok() {
        model.frames.push((position, b"too late".to_vec()));
    }
    match log.sync() {
        Ok(now) => assert_eq!(now, log.end(), "without durability, a sync may sync nothing"),
        Err(error) => {
            assert!(matches!(error, LogError::Failed { .. }), "{error}");
            assert_eq!(log.durable(), durable);
            assert!(matches!(log.append(b"never"), Err(LogError::Failed { .. })));
        }
    }
}

/// The position up to which frames must survive a power cut: without syncs only sealed segments.
fn durable_after_power_cut(log: &FileLog, options: &Options) -> Position {
    match options.durability {
        Durability::None => log.begin(),
        _ => log.durable(),
    }
}

#[test]
fn after_any_crash_the_log_is_a_prefix_with_everything_durable() {
    for seed in 0..1500 {
        let mut rng = SplitMix(seed);
        let mut disk = Disk::default();
        let mut model = Model::default();
        for round in 0..6 {
            let options = options(&mut rng);
            let context = format!("seed {seed}, round {round}, {options:?}");
            let (log, _) = FileLog::open_folder(Box::new(disk.clone()), options)
                .unwrap_or_else(|error| panic!("{context}: {error}"));
            model.check_recovered(&log, &context);
            work(&log, &mut model, &mut rng);
            if rng.chance(4) {
                disk.set_fault(if rng.chance(2) { Fault::Sync } else { Fault::Write });
                work_until_failure(&log, &mut model);
            }
            if rng.chance(3) {
                model.durable = log.durable();
                disk = disk.after_kill();
            } else {
                model.durable = durable_after_power_cut(&log, &options);
                disk = power_cut(&disk, &mut rng);
            }
        }
    }
}

/// A crash while the log is opened, perhaps during a repair.
#[test]
fn a_crash_during_recovery_changes_nothing() {
    for seed in 0..500 {
        let mut rng = SplitMix(seed);
        let disk = Disk::default();
        let mut model = Model::default();
        let options = options(&mut rng);
        let (log, _) = FileLog::open_folder(Box::new(disk.clone()), options).unwrap();
        work(&log, &mut model, &mut rng);
        model.durable = durable_after_power_cut(&log, &options);
        let disk = power_cut(&disk, &mut rng);
        let before = disk.after_kill();
        // Recovers, and loses some sectors that the recovery wrote.
        let (log, _) = FileLog::open_folder(Box::new(disk.clone()), options).unwrap();
        model.check_recovered(&log, "first recovery");
        drop(log);
        let mixed = mix(&before, &disk, &mut rng);
        let (log, _) = FileLog::open_folder(Box::new(mixed), options).unwrap();
        model.check_recovered(&log, &format!("seed {seed}, second recovery"));
    }
}

/// A disk that holds the files of `after`, with some sectors as they were in `before`.
fn mix(before: &Disk, after: &Disk, rng: &mut SplitMix) -> Disk {
    let old = before.files();
    let mixed = after.after_kill();
    for (name, mut bytes) in after.files() {
        let mut old = old.get(&name).cloned().unwrap_or_default();
        old.resize(bytes.len(), 0);
        for (new, old) in bytes.chunks_mut(SECTOR_BYTES).zip(old.chunks(SECTOR_BYTES)) {
            if rng.chance(2) {
                new.copy_from_slice(old);
            }
        }
        mixed.put(&name, bytes);
    }
    mixed
}

#[test]
fn damage_before_the_last_write_is_refused_and_nothing_is_touched() {
    for seed in 0..1000 {
        let mut rng = SplitMix(seed);
        let disk = Disk::default();
        let options = Options { durability: Durability::Commit, ..options(&mut rng) };
        let (log, _) = FileLog::open_folder(Box::new(disk.clone()), options).unwrap();
        let mut model = Model::default();
        work(&log, &mut model, &mut rng);
        log.sync().unwrap();
        let before_last = log.end();
        log.append(b"the last write").unwrap();
        log.sync().unwrap();
        let lasting: Vec<_> = model.frames.iter().filter(|(at, _)| *at >= log.begin()).collect();
        if lasting.is_empty() {
            continue;
        }
        let (position, payload) = lasting[rng.below(lasting.len())];
        let (start, _, _) = log.tail.lock().locate(*position);
        drop(log);
        let name = super::super::format::segment_name(start);
        let mut bytes = disk.files().remove(&name).unwrap();
        let offset = SEGMENT_HEADER_BYTES as usize + (position - start) as usize;
        let at = offset + rng.below(24 + payload.len());
        bytes[at] ^= 1 << rng.below(8);
        disk.put(&name, bytes);
        let files = disk.files();
        match FileLog::open_folder(Box::new(disk.clone()), options) {
            Err(OpenError::Damaged { path, offset: found, later, .. }) => {
                assert_eq!((path.ends_with(&name), found as usize), (true, offset), "seed {seed}");
                assert!(later <= before_last);
            }
            Err(OpenError::Gap { from, .. }) => assert_eq!(from, *position, "seed {seed}"),
            other => panic!("seed {seed}: {:?}", other.map(|(_, report)| report)),
        }
        assert_eq!(disk.files(), files, "seed {seed}: nothing may be changed");
    }
}

/// For any contents of the files, opening returns a result, and an opened log can be read.
#[test]
fn random_damage_never_panics() {
    for seed in 0..1000 {
        let mut rng = SplitMix(seed);
        let disk = Disk::default();
        let options = options(&mut rng);
        let (log, _) = FileLog::open_folder(Box::new(disk.clone()), options).unwrap();
        work(&log, &mut Model::default(), &mut rng);
        drop(log);
        for (name, mut bytes) in disk.files() {
            for _ in 0..rng.below(4) {
                let at = rng.below(bytes.len());
                let until = (at + rng.below(40)).min(bytes.len());
                bytes[at..until].iter_mut().for_each(|byte| *byte = rng.next() as u8);
            }
            bytes.truncate(if rng.chance(4) { rng.below(bytes.len()) } else { bytes.len() });
            disk.put(&name, bytes);
        }
        if let Ok((log, _)) = FileLog::open_folder(Box::new(disk.clone()), options) {
            let found = frames(&log, log.begin());
            log.append(b"continues").unwrap();
            log.sync().unwrap();
            assert_eq!(frames(&log, log.begin()).len(), found.len() + 1, "seed {seed}");
        }
    }
}

/// The process is killed or the power fails, and then one file is damaged: cut or removed, or,
/// after a kill, with a flipped bit or a sector of zeros. Either every durable frame is there, or
/// opening fails and names a file. With `accept_loss` the log opens up to the loss.
#[test]
fn damage_loses_nothing_durable_or_is_refused_by_name() {
    let (mut whole, mut refused) = (0, 0);
    for seed in 0..3000 {
        let mut rng = SplitMix(seed);
        let disk = Disk::default();
        let options = Options { durability: Durability::Commit, ..options(&mut rng) };
        let (log, _) = FileLog::open_folder(Box::new(disk.clone()), options).unwrap();
        let mut model = Model::default();
        work(&log, &mut model, &mut rng);
        model.durable = log.durable();
        let begin = log.begin();
        let is_killed = rng.chance(2);
        let disk = if is_killed { disk.after_kill() } else { power_cut(&disk, &mut rng) };
        drop(log);
        let names: Vec<String> = disk.files().into_keys().collect();
        let name = names[rng.below(names.len())].clone();
        damage(&disk, &name, if is_killed { 4 } else { 2 }, &mut rng);
        let (files, context) = (disk.files(), format!("seed {seed}, {name} is damaged"));
        let options = Options { must_exist: true, ..options };
        match FileLog::open_folder(Box::new(disk.clone()), options) {
            // The site that needs the log from `begin` on notices this case.
            Ok((log, _)) if log.begin() > begin => refused += 1,
            Ok((log, report)) => {
                model.check_recovered(&log, &format!("{context}, {is_killed} {report:?}"));
                whole += 1;
            }
            Err(error) => {
                assert!(error.is_loss(), "{context}: {error}");
                assert!(![SPARE_NAME, WATERMARK_NAME].contains(&&*name), "{context}: {error}");
                assert!(error.to_string().contains(".log"), "{context}: {error}");
                assert_eq!(disk.files(), files, "{context}: nothing may be changed");
                let options = Options { accept_loss: true, ..options };
                let (log, report) = FileLog::open_folder(Box::new(disk.clone()), options).unwrap();
                assert_eq!(report.lost, Some(error.to_string()), "{context}");
                drop(log);
                let options = Options { accept_loss: false, ..options };
                FileLog::open_folder(Box::new(disk), options).expect("it was accepted");
                refused += 1;
            }
        }
    }
    assert!(whole > 300 && refused > 300, "{whole} whole, {refused} refused");
}

/// Damages a file in one of the first `ways` of four: cut, removed, a flipped bit, a run of zeros.
fn damage(disk: &Disk, name: &str, ways: usize, rng: &mut SplitMix) {
    let mut bytes = disk.files().remove(name).unwrap();
    if bytes.is_empty() {
        return disk.take(name);
    }
    let at = rng.below(bytes.len());
    match rng.below(ways) {
        0 => bytes.truncate(at),
        1 => return disk.take(name),
        2 => bytes[at] ^= 1 << rng.below(8),
        _ => {
            let end = bytes.len().min(at + SECTOR_BYTES);
            bytes[at..end].fill(0);
        }
    }
    disk.put(name, bytes);
}

/// The control: on a disk whose syncs store nothing, the same checks find lost commits.
#[test]
fn without_syncs_power_cuts_lose_acknowledged_commits() {
    let mut losses = 0;
    for seed in 0..100 {
        let mut rng = SplitMix(seed);
        let disk = Disk::default();
        let options = Options { durability: Durability::Commit, ..options(&mut rng) };
        let (log, _) = FileLog::open_folder(Box::new(disk.clone()), options).unwrap();
        disk.set_fault(Fault::Lie);
        work(&log, &mut Model::default(), &mut rng);
        let durable = log.durable();
        let opened = FileLog::open_folder(Box::new(power_cut(&disk, &mut rng)), options);
        losses += usize::from(opened.map_or(true, |(log, _)| log.end() < durable));
    }
    assert!(losses > 50, "only {losses} of 100 power cuts lost something");
}

/// The last frame of a log, torn at every byte: that frame is lost, and all earlier ones remain. A
/// file that ends at the tear is refused, because no crash shortens a file.
#[test]
fn a_tail_torn_at_any_byte_is_cut_off() {
    let disk = Disk::default();
    let options = Options { segment_bytes: 1024, ..Options::default() };
    let (log, _) = FileLog::open_folder(Box::new(disk.clone()), options).unwrap();
    for payload in [&b"one"[..], b"two", b"the last one, torn"] {
        log.append(payload).unwrap();
        log.sync().unwrap();
    }
    let expected = frames(&log, 0);
    let last = expected[2].0;
    drop(log);
    let (name, bytes) = disk.files().pop_first().unwrap();
    let offset = SEGMENT_HEADER_BYTES as usize + last as usize;
    for cut in offset..offset + 24 + 18 {
        let mut torn = bytes.clone();
        torn[cut..].fill(0);
        let disk = Disk::default();
        disk.put(&name, torn[..cut].to_vec());
        let short = FileLog::open_folder(Box::new(disk), options);
        assert!(matches!(short, Err(OpenError::Short { position, .. }) if position == last));
        let disk = Disk::default();
        disk.put(&name, torn.clone());
        let (log, report) = FileLog::open_folder(Box::new(disk.clone()), options).unwrap();
        assert_eq!((report.end, log.end(), log.durable()), (last, last, last));
        let used = torn[offset..].iter().rposition(|&byte| byte != 0);
        assert_eq!(report.torn.map(|torn| torn.bytes), used.map(|at| at as u64 + 1));
        assert_eq!(frames(&log, 0), expected[..2]);
        // No byte of the torn frame reappears.
        log.append(b"").unwrap();
        log.sync().unwrap();
        drop(log);
        let (log, report) = FileLog::open_folder(Box::new(disk), options).unwrap();
        assert_eq!(report.torn, None);
        assert_eq!(frames(&log, 0).len(), 3);
    }
}

#[test]
fn a_large_frame_is_synced_in_pieces_and_stays_atomic() {
    let disk = Disk::default();
    let options = Options { segment_bytes: 1000, ..Options::default() };
    let (log, _) = FileLog::open_folder(Box::new(disk.clone()), options).unwrap();
    let large: Vec<u8> = (0..2 * PIECE_BYTES + 5).map(|at| at as u8).collect();
    log.append(b"small").unwrap();
    log.append(&large).unwrap();
    let end = log.sync().unwrap();
    assert!(disk.most_unsynced() < PIECE_BYTES + 1000, "{}", disk.most_unsynced());
    let (log, _) = FileLog::open_folder(Box::new(disk.after_kill()), options).unwrap();
    assert_eq!(log.end(), end);
    assert!(frames(&log, 0)[1].1 == large);
    // The last piece does not reach the disk: three syncs work, for the file's length and two
    // pieces.
    let disk = Disk::default();
    let (log, _) = FileLog::open_folder(Box::new(disk.clone()), options).unwrap();
    log.append(b"small").unwrap();
    log.sync().unwrap();
    log.append(&large).unwrap();
    disk.set_fault_after(3, Fault::Sync);
    log.sync().unwrap_err();
    let torn = &mut |_: &[u8], stored: &[u8]| stored.to_vec();
    let (log, report) =
        FileLog::open_folder(Box::new(disk.after_crash(torn, usize::MAX)), options).unwrap();
    assert!(report.torn.is_some());
    assert_eq!(frames(&log, 0), [(0, b"small".to_vec())]);
}
