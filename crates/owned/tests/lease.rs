//! How long a new owner of a log waits for the lease of the owner before it.

use isomer_owned::lease::{Times, WAITS, WAITS_MIN};
use isomer_owned::owned::{Opening, Options, OwnedLog, Step};
use isomer_owned::record::Offset;
use std::time::Duration;

const DATABASE: u128 = 0xabc;
const S: Duration = Duration::from_secs(1);

/// A partition whose records arrive at once.
#[derive(Default)]
struct Partition(Vec<Vec<u8>>);

impl Partition {
    /// Opens the log at `now`, with a lease of these seconds. `received` has the newest record that
    /// the process had, and when. Returns the log, and how long its commits wait.
    fn open(
        &mut self,
        now: Duration,
        lease: u32,
        received: Option<(Offset, Duration)>,
    ) -> (OwnedLog, Duration) {
        let options = Options { times: Times::lasting(lease * S), ..Options::default() };
        let mut opening = Opening::new("here".into(), DATABASE, 1, 0, options);
        for (offset, record) in self.0.iter().enumerate() {
            let taken = opening.take(offset as Offset, record).expect("it is whole");
            assert!(taken.is_continue());
        }
        self.0.push(opening.claim(self.0.len() as u64, "a").expect("all is there"));
        let last = self.0.len() - 1;
        assert!(opening.take(last as Offset, &self.0[last]).expect("a claim").is_break());
        let (log, report) = opening.own(now, received).expect("no other process has claimed it");
        (log, report.waits)
    }

    /// Sends what the owner has to send.
    fn write(&mut self, log: &OwnedLog, now: Duration) {
        let Step::Send(record) = log.step(now).expect("it owns the log") else {
            panic!("a record")
        };
        let offset = self.0.len() as Offset;
        self.0.push(record);
        log.answered(isomer_owned::owned::Sent::Written(Some(offset))).expect("it counts");
    }
}

#[test]
fn leases_are_within_their_bounds_and_end_before_the_wait_for_them() {
    for (asked, waits) in [(S / 2, WAITS_MIN), (3 * S, 3 * S), (Duration::MAX, WAITS)] {
        let times = Times::lasting(asked);
        assert_eq!(times.waits, waits);
        assert!(times.serves < times.waits && times.renews < times.serves);
    }
}

#[test]
fn the_next_owner_waits_for_the_lease_that_the_claim_states() {
    let mut partition = Partition::default();
    let (first, waits) = partition.open(Duration::ZERO, 5, None);
    assert_eq!(waits, Duration::ZERO, "it is new");
    partition.write(&first, Duration::ZERO);
    let (second, waits) = partition.open(10 * S, 2, None);
    assert_eq!(waits, 5 * S);
    partition.write(&second, 10 * S);
    // The wait of the second may not be over, so the lease of the first counts as well.
    let (third, waits) = partition.open(11 * S, 2, None);
    assert_eq!(waits, 5 * S);
    partition.write(&third, 11 * S);
    partition.0.push(third.release(20 * S).expect("its wait is over"));
    let (fourth, waits) = partition.open(21 * S, 3, None);
    assert_eq!(waits, Duration::ZERO);
    partition.write(&fourth, 21 * S);
    assert_eq!(partition.open(22 * S, 5, None).1, 3 * S);
}

#[test]
fn the_wait_counts_from_the_last_record_of_the_owner_before() {
    let mut partition = Partition::default();
    let (first, _) = partition.open(Duration::ZERO, 5, None);
    partition.write(&first, Duration::ZERO);
    let newest = partition.0.len() as Offset - 1;
    let waits = |received| {
        let mut partition = Partition(partition.0.clone());
        partition.open(104 * S, 5, received).1
    };
    assert_eq!(waits(Some((newest, 102 * S))), 3 * S);
    assert_eq!(waits(Some((newest, 90 * S))), Duration::ZERO);
    assert_eq!(waits(Some((newest - 1, 90 * S))), 5 * S, "the last one came later");
    assert_eq!(waits(None), 5 * S);
}
