//! Messages survive a round trip, bytes that are not a message are errors, and the format is
//! stable.

mod samples;

use super::*;
use rand::RngExt;
use samples::{Sample, rng, samples};

/// The bytes of a message of each variant. A line that changes is a change of the format: see the
/// head of [`super`].
const KNOWN: &str = include_str!("messages");

#[test]
fn messages_are_the_bytes_that_other_processes_know() {
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    let known: Vec<&str> = KNOWN.lines().collect();
    let mut unknown = Vec::new();
    for sample in samples(0) {
        let line = format!("{}: {}", sample.name, hex(&sample.bytes));
        if !known.contains(&line.as_str()) {
            unknown.push(line);
        }
    }
    assert!(
        unknown.is_empty(),
        "these are not in `messages`; if they are new, add them:\n{}",
        unknown.join("\n")
    );
    assert_eq!(samples(0).len(), known.len(), "`messages` has lines for what is no longer sent");
}

#[test]
fn every_message_comes_back_as_it_was_sent() {
    for seed in 0..200 {
        for Sample { name, bytes, sent, again } in samples(seed) {
            let (came, written_again) = again(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(came, sent, "{name}, seed {seed}");
            assert_eq!(written_again, bytes, "{name}, seed {seed}: something was lost on the way");
        }
    }
}

#[test]
fn a_message_that_is_cut_off_prolonged_or_damaged_is_refused() {
    for Sample { name, bytes, again, .. } in samples(1) {
        for cut in 0..bytes.len() {
            let refused = again(&bytes[..cut]).expect_err("it was cut off");
            let is_named = matches!(refused, BadMessage::Short(_) | BadMessage::Length { .. });
            assert!(is_named, "{name} cut at {cut}: {refused}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(matches!(again(&longer), Err(BadMessage::Length { .. })), "{name}");
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(again(&damaged).is_err(), "{name}, damaged at {at}");
        }
    }
}

/// A checksum detects accidents. Messages of a hostile or faulty sender must do no harm either.
#[test]
fn a_body_that_makes_no_sense_is_refused_even_with_its_checksum() {
    let mut rng = rng(2, "bodies");
    let mut refused = 0;
    for seed in 0..20 {
        for Sample { name, bytes, again, .. } in samples(seed) {
            let (kind, body) = (bytes[1], &bytes[HEAD_BYTES..]);
            for cut in 0..body.len() {
                let cut_off = again(&sealed(kind, &body[..cut]));
                assert!(matches!(cut_off, Err(BadMessage::Body { .. })), "{name} cut at {cut}");
            }
            for _ in 0..20 {
                let mut body = body.to_vec();
                if body.is_empty() {
                    continue;
                }
                let at = rng.random_range(0..body.len());
                match rng.random_range(0..3) {
                    0 => body[at] = rng.random(),
                    // Where a length is expected, this is one of 2⁶³ and more.
                    1 => drop(body.splice(at..at, [0xff; 9].into_iter().chain([1]))),
                    _ => body[at..].iter_mut().for_each(|byte| *byte = rng.random()),
                }
                // It may happen to make sense; then it is another message, and can be written.
                refused += usize::from(again(&sealed(kind, &body)).is_err());
            }
        }
    }
    assert!(refused > 1000, "only {refused} damaged bodies were refused");
}

#[test]
fn bytes_of_any_kind_are_no_message() {
    let mut rng = rng(3, "bytes");
    for _ in 0..20_000 {
        let length = rng.random_range(0..64);
        let mut bytes: Vec<u8> = (0..length).map(|_| rng.random()).collect();
        assert!(read_ask(&bytes).is_err() && read_message(&bytes).is_err());
        if let Some(version) = bytes.first_mut() {
            *version = VERSION;
        }
        assert!(read_ask(&bytes).is_err() && read_answer::<Step>(&bytes).is_err());
        // With a head that is right, too; most kinds are unknown.
        let _ = read_ask(&sealed(rng.random(), &bytes));
        let _ = read_answer::<Part>(&sealed(ANSWER + Part::KIND, &bytes));
        let _ = read_message(&sealed(MESSAGE, &bytes));
    }
}

#[test]
fn what_is_wrong_is_named() {
    let error = |bytes: &[u8]| read_ask(bytes).expect_err("it is no request").to_string();
    let tick = ask(SiteId(3), &Tick);
    assert_eq!(error(&tick[..4]), "a message has at least 18 bytes; this one has 4");
    assert_eq!(
        error(&[9, 9]),
        "a message of version 9; this program knows version 8, so let both be of one release"
    );
    assert_eq!(
        error(&tick[..18]),
        "a message of 19 bytes has 18: it was cut off, or something follows it"
    );
    let mut damaged = tick.clone();
    damaged[18] = 4;
    assert!(error(&damaged).starts_with("a message of kind 8 is damaged: its checksum is 0x"));
    assert_eq!(
        error(&sealed(15, &[])),
        "a message of kind 15, where one of 1 to 14, a request is expected"
    );
    assert_eq!(
        error(&sealed(8, &[0])),
        "the body of a message of kind 8 is not what it should be in version 8: a value is out of bounds"
    );
    assert_eq!(
        error(&sealed(8, &[3, 7])),
        "the body of a message of kind 8 is not what it should be in version 8: 1 bytes follow what was expected"
    );
    let other = answer::<Tick>(&());
    let wrong = read_answer::<Part>(&other).expect_err("it answers something else").to_string();
    assert_eq!(
        wrong,
        "a message of kind 136, where one of the answer to what was asked is expected"
    );
    let why = read_answer::<Part>(&not_understood("it is late")).expect_err("it was refused");
    assert_eq!(why, BadMessage::NotUnderstood("it is late".to_owned()));
}

#[test]
fn a_frame_is_sent_once_in_a_feed() {
    let feed = samples::feed_of_two_records(1000);
    assert!(message(SiteId(1), SiteId(2), &Message::Feed(feed)).len() < 1500);
}

#[test]
fn a_number_is_under_the_checksum_and_changes_nothing_else() {
    let mut tick = ask(SiteId(3), &Tick);
    let plain = tick.clone();
    set_number(&mut tick, 7_000_000_000);
    let head = Head { kind: 8, number: 7_000_000_000, body_bytes: 1 };
    assert_eq!(Head::of(&tick), Ok(head));
    assert_eq!(Head::read(tick.first_chunk().expect("a head")), Ok(head));
    assert!(matches!(read_ask(&tick), Ok((SiteId(3), Ask::Tick(_)))));
    tick[NUMBER_AT] ^= 1;
    assert!(matches!(Head::of(&tick), Err(BadMessage::Damaged { .. })));
    set_number(&mut tick, 0);
    assert_eq!(tick, plain);
}

/// A message with a head that is right, whatever its body is.
fn sealed(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![VERSION, kind];
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    let mut sum = crc32fast::Hasher::new();
    sum.update(&bytes);
    sum.update(body);
    bytes.extend_from_slice(&sum.finalize().to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}
