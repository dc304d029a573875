//! Numbers as groups of four digits: their binary format in the protocol.
//!
//! ```text
//!   12345.678    3 groups, the first of 10^(4 * 1)    sign     3 digits shown    1  2345  6780
//!                00 03     00 01                      00 00    00 03             00 01 09 29 1a 7c
//! ```

use super::big::ten_to;
use super::{Decimal, Shape, Special, WHOLE_DIGITS_MAX};
use num_bigint::BigInt;

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;
const INFINITY: u16 = 0xd000;
const MINUS_INFINITY: u16 = 0xf000;
/// PostgreSQL's scale of an infinity.
const INFINITY_SCALE: u16 = 0x20;

impl Decimal {
    /// Appends the groups.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        if let Shape::Special(special) = self.0 {
            let (sign, scale) = match special {
                Special::Nan => (NAN, 0),
                Special::Infinity => (INFINITY, INFINITY_SCALE),
                Special::MinusInfinity => (MINUS_INFINITY, INFINITY_SCALE),
            };
            return [0, 0, sign, scale].iter().for_each(|word| out.extend(word.to_be_bytes()));
        }
        let text = self.to_string();
        let digits = text.trim_start_matches('-');
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let width = whole.len().div_ceil(4) * 4;
        let behind = fraction.len().div_ceil(4) * 4;
        let digits = format!("{whole:0>width$}{fraction:0<behind$}");
        let value =
            |group: &[u8]| group.iter().fold(0, |n, digit| n * 10 + u16::from(digit - b'0'));
        let groups: Vec<u16> = digits.as_bytes().chunks(4).map(value).collect();
        let first = groups.iter().take_while(|group| **group == 0).count();
        let last = groups.iter().rposition(|group| *group != 0).map_or(first, |last| last + 1);
        let weight = if first == groups.len() { 0 } else { width as i64 / 4 - 1 - first as i64 };
        let sign = if text.starts_with('-') { NEGATIVE } else { 0 };
        let head = [(last - first) as u16, weight as i16 as u16, sign, self.scale().unwrap_or(0)];
        head.iter().chain(&groups[first..last]).for_each(|word| out.extend(word.to_be_bytes()));
    }

    /// Estimates the memory of a number that is read from these groups.
    pub(crate) fn encoded_bytes(bytes: &[u8]) -> usize {
        let weight = bytes.get(2..4).map_or(0, |weight| i16::from_be_bytes([weight[0], weight[1]]));
        if bytes.len() <= 16 && weight < 8 {
            0
        } else {
            2 * bytes.len() + 2 * weight.max(0) as usize
        }
    }

    /// Reads groups; `None` if they are not a number.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Decimal> {
        let (head, groups) = bytes.split_at_checked(8)?;
        let word = |at: usize| u16::from_be_bytes([head[2 * at], head[2 * at + 1]]);
        let (count, weight, sign, scale) = (word(0), word(1) as i16, word(2), word(3));
        if groups.len() != 2 * usize::from(count) {
            return None;
        }
        match sign {
            0 | NEGATIVE => {}
            NAN => return Some(Decimal::NAN),
            INFINITY => return Some(Decimal::INFINITY),
            MINUS_INFINITY => return Some(Decimal::MINUS_INFINITY),
            _ => return None,
        }
        let mut digits = Vec::with_capacity(4 * usize::from(count));
        for group in groups.chunks(2) {
            let group = u16::from_be_bytes([group[0], group[1]]);
            if group > 9999 {
                return None;
            }
            digits.extend(
                [group / 1000, group / 100 % 10, group / 10 % 10, group % 10]
                    .map(|digit| b'0' + digit as u8),
            );
        }
        let mantissa = match digits.as_slice() {
            [] => BigInt::ZERO,
            digits => BigInt::parse_bytes(digits, 10)?,
        };
        // Digits behind the shown ones are cut off.
        let behind = (i64::from(count) - 1 - i64::from(weight)) * 4;
        let exact = match behind {
            ..0 if -behind > WHOLE_DIGITS_MAX => return None,
            ..0 => Decimal::checked(mantissa * ten_to(-behind), 0),
            _ if behind > i64::from(scale) => {
                Decimal::checked(mantissa / ten_to(behind - i64::from(scale)), scale.into())
            }
            _ => Decimal::checked(mantissa, behind),
        };
        let value = exact.and_then(|exact| exact.truncate(scale.into())).ok()?;
        Some(if sign == NEGATIVE { value.negated() } else { value })
    }
}
