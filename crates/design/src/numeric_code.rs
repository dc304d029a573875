//! Exact numbers of any length, encoded as bytes in the order of the numbers.
//!
//! A number is encoded as its sign, the count of its pairs of digits before the point, and these
//! and the later pairs. Pairs count from the point in both directions. If the first pair is after
//! the point, the count is negative: the pairs of zeros between the point and that pair. Zeros at
//! both ends are left out, so equal numbers have equal encodings, whatever their notation.
//!
//! ```text
//!   number        sign   pairs before the point   pairs + 1    end
//!   −Infinity      00
//!   −12.5          01     7e fe  (all flipped)    f2 cc        ff
//!   0              02
//!   0.003          03     7e ff                   1f           00     a pair of zeros is behind the point
//!   12.50          03     81 01                   0d 33        00
//!   1250           03     81 02                   0d 33        00
//!   Infinity       04
//!   NaN            05                                                 above all others, and equal to itself
//! ```
//!
//! The count is encoded like an integer of a key, so a longer number is larger. Between numbers
//! with the same count the first different pair decides. The end mark is less than any pair, or
//! greater if all is flipped.
//!
//! **Left out.** The number of zeros at the end. A row keeps the digits of its key columns as they
//! were written ([`crate::row`]).

use crate::{Key, put_int, take_int};

const MINUS_INFINITY: u8 = 0;
const NEGATIVE: u8 = 1;
const ZERO: u8 = 2;
const POSITIVE: u8 = 3;
const INFINITY: u8 = 4;
const NAN: u8 = 5;
const END: u8 = 0;
/// More pairs of digits than a number has before the point, or pairs of zeros after it.
const PAIRS_MAX: i64 = 1 << 17;

/// The parts of a number: whether it is negative, its digits before the point, and those after it.
fn parts(text: &str) -> Option<(bool, &str, &str)> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    (are_digits(whole) && are_digits(fraction)).then_some((unsigned != text, whole, fraction))
}

/// True for `12.50`, `-7`, `NaN`, `Infinity` and `-Infinity`.
pub(crate) fn is_number(text: &str) -> bool {
    matches!(text, "NaN" | "Infinity" | "-Infinity") || parts(text).is_some()
}

/// Appends a number to a key.
pub(crate) fn put(text: &str, key: &mut Key) {
    match text {
        "NaN" => return key.extend(&[NAN]),
        "Infinity" => return key.extend(&[INFINITY]),
        "-Infinity" => return key.extend(&[MINUS_INFINITY]),
        _ => {}
    }
    let (is_negative, whole, fraction) = parts(text).expect("a number was asked for");
    let (before, pairs) = pairs(whole, fraction);
    if pairs.is_empty() {
        return key.extend(&[ZERO]);
    }
    let mut bytes = Vec::with_capacity(pairs.len() + 4);
    put_int(before, |count| bytes.extend_from_slice(count));
    bytes.extend(pairs.iter().map(|pair| pair + 1));
    bytes.push(END);
    if is_negative {
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
    }
    key.extend(&[if is_negative { NEGATIVE } else { POSITIVE }]);
    key.extend(&bytes);
}

/// The count of pairs before the point, and the pairs, without zeros at both ends.
fn pairs(whole: &str, fraction: &str) -> (i64, Vec<u8>) {
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    let missing = if whole.len() % 2 == 1 { "0" } else { "" };
    let digits: Vec<u8> =
        [missing, whole, fraction].iter().flat_map(|part| part.bytes()).map(|b| b - b'0').collect();
    let mut pairs: Vec<u8> =
        digits.chunks(2).map(|pair| pair[0] * 10 + pair.get(1).unwrap_or(&0)).collect();
    let zeros = pairs.iter().take_while(|pair| **pair == 0).count();
    pairs.drain(..zeros);
    while pairs.last() == Some(&0) {
        pairs.pop();
    }
    (whole.len().div_ceil(2) as i64 - zeros as i64, pairs)
}

/// Decodes a number from the front of `bytes`: without zeros at its ends, and the bytes that it
/// took.
pub(crate) fn take(bytes: &[u8]) -> Option<(String, usize)> {
    let is_negative = match *bytes.first()? {
        MINUS_INFINITY => return Some(("-Infinity".to_owned(), 1)),
        ZERO => return Some(("0".to_owned(), 1)),
        INFINITY => return Some(("Infinity".to_owned(), 1)),
        NAN => return Some(("NaN".to_owned(), 1)),
        NEGATIVE => true,
        POSITIVE => false,
        _ => return None,
    };
    let flip = if is_negative { 0xff } else { 0 };
    // An integer takes nine bytes at most.
    let head: Vec<u8> = bytes[1..].iter().take(9).map(|byte| byte ^ flip).collect();
    let (before, count_bytes) = take_int(&head)?;
    let rest = &bytes[1 + count_bytes..];
    let end = rest.iter().position(|byte| byte ^ flip == END)?;
    let pairs: Vec<u8> = rest[..end].iter().map(|byte| (byte ^ flip) - 1).collect();
    let is_whole = pairs.iter().all(|pair| *pair < 100)
        && !matches!(pairs.first(), None | Some(0))
        && pairs.last() != Some(&0)
        && before.abs() < PAIRS_MAX;
    is_whole.then(|| (written(is_negative, before, &pairs), 1 + count_bytes + end + 1))
}

fn written(is_negative: bool, before: i64, pairs: &[u8]) -> String {
    let mut digits = "00".repeat((-before).max(0) as usize);
    pairs.iter().for_each(|pair| digits.push_str(&format!("{pair:02}")));
    let point = 2 * before.max(0) as usize;
    let digits = format!("{digits:0<point$}");
    let (whole, fraction) = digits.split_at(point);
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let sign = if is_negative { "-" } else { "" };
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Vec<u8> {
        let mut key = Key::min();
        put(text, &mut key);
        key.as_bytes().to_vec()
    }

    #[test]
    fn numbers_are_the_bytes_of_the_picture() {
        assert_eq!(key("-12.5"), [0x01, 0x7e, 0xfe, 0xf2, 0xcc, 0xff]);
        assert_eq!(key("0.003"), [0x03, 0x7e, 0xff, 0x1f, 0x00]);
        assert_eq!(key("12.50"), [0x03, 0x81, 0x01, 0x0d, 0x33, 0x00]);
        assert_eq!(key("1250"), [0x03, 0x81, 0x02, 0x0d, 0x33, 0x00]);
    }

    #[test]
    fn numbers_order_like_their_encodings() {
        let mut numbers = Vec::new();
        for zeros in [0, 1, 2, 3, 300] {
            let zeros = "0".repeat(zeros);
            for digits in ["1", "10", "101", "11", "9", "99", "990001", "5"] {
                numbers.push(format!("{digits}{zeros}"));
                numbers.push(format!("{digits}{zeros}.{digits}"));
                numbers.push(format!("{digits}{zeros}.{zeros}{digits}"));
                numbers.push(format!("0.{zeros}{digits}"));
            }
        }
        let below: Vec<String> = numbers.iter().map(|number| format!("-{number}")).collect();
        numbers.extend(below);
        numbers.extend(["0", "NaN", "Infinity", "-Infinity"].map(str::to_owned));
        for a in &numbers {
            for b in &numbers {
                assert_eq!(key(a).cmp(&key(b)), order(a, b), "{a} {b}");
                let is_cut = key(a).len() < key(b).len() && key(b).starts_with(&key(a));
                assert!(!is_cut, "{a} begins {b}");
            }
            let longer = [key(a), vec![7, 0]].concat();
            let (text, used) = take(&longer).expect("it was written");
            assert_eq!((order(&text, a), used), (std::cmp::Ordering::Equal, key(a).len()));
            assert_eq!(take(&key(a)[..key(a).len() - 1]), None, "cut short: {a}");
        }
    }

    /// By their digits, padded to equal lengths on both sides of the point.
    fn order(a: &str, b: &str) -> std::cmp::Ordering {
        let rank = |text: &str| match text {
            "-Infinity" => 0,
            "Infinity" => 2,
            "NaN" => 3,
            _ => 1,
        };
        let aligned = |text: &str| {
            let unsigned = text.trim_start_matches('-');
            let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
            format!("{whole:0>400}{fraction:0<700}")
        };
        if (rank(a), rank(b)) != (1, 1) {
            return rank(a).cmp(&rank(b));
        }
        let (x, y) = (aligned(a), aligned(b));
        match (a.starts_with('-'), b.starts_with('-')) {
            (false, false) => x.cmp(&y),
            (true, true) => y.cmp(&x),
            (a_below, _) => {
                if a_below {
                    std::cmp::Ordering::Less
                } else {
                    std::cmp::Ordering::Greater
                }
            }
        }
    }

    #[test]
    fn equal_numbers_are_the_same_bytes() {
        for (a, b) in [("1.0", "1.00"), ("-0.50", "-00.5"), ("0", "-0.000"), ("100", "100.00")] {
            assert_eq!(key(a), key(b));
        }
    }

    #[test]
    fn what_was_never_written_is_refused() {
        for bytes in [
            &[][..],
            &[6],
            &[3],
            &[3, 0x80],
            &[3, 0x80, 0],
            &[3, 0x80, 1, 0],
            &[3, 0x80, 2, 1, 0],
            &[3, 0x80, 101, 0],
            &[3, 0x82, 0, 1, 5, 0],
            &[3, 0x83, 0x10, 0, 0, 5, 0],
        ] {
            assert_eq!(take(bytes), None, "{bytes:?}");
        }
        for text in ["", "-", "1.", ".5", "1e5", "+1", "nan", "--1", "1.2.3"] {
            assert!(!is_number(text), "{text}");
        }
    }
}
