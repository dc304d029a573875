//! TPC-C's values, and their form on the wire.
//!
//! Money is a whole number of cents here and a `numeric` there. Parameters go as text, which every
//! driver can send; results come in the binary form, base 10,000:
//!
//! ```text
//!   123.45    digits 2 │ weight 0 │ sign 0 │ scale 2 │ 123 │ 4500
//! ```

use isomer_workload::Random;
use postgres::types::private::BytesMut;
use postgres::types::{Format, FromSql, IsNull, ToSql, Type, to_sql_checked};
use rand::RngExt;
use std::error::Error;

/// An amount of money, in hundredths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cents(pub(super) i64);

impl ToSql for Cents {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let (sign, cents) = (if self.0 < 0 { "-" } else { "" }, self.0.abs());
        out.extend_from_slice(format!("{sign}{}.{:02}", cents / 100, cents % 100).as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::NUMERIC
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

impl FromSql<'_> for Cents {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Cents, Box<dyn Error + Sync + Send>> {
        let words: Vec<i16> =
            raw.chunks_exact(2).map(|word| i16::from_be_bytes([word[0], word[1]])).collect();
        let [_, weight, sign, _, digits @ ..] = words.as_slice() else {
            return Err("a numeric has a head of eight bytes".into());
        };
        // In units of 10^-4, which is the first group behind the point.
        let mut value = 0i64;
        for (at, digit) in (0i16..).zip(digits) {
            let power = weight - at + 1;
            if power >= 0 {
                value += i64::from(*digit) * 10_000i64.pow(power as u32);
            }
        }
        Ok(Cents(if *sign == 0 { value / 100 } else { -value / 100 }))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::NUMERIC
    }
}

/// Clause 2.1.6: some values are drawn more often than others. `c` differs from column to column.
pub(super) fn skewed(rng: &mut Random, a: i32, c: i32, from: i32, to: i32) -> i32 {
    let mixed = rng.random_range(0..=a) | rng.random_range(from..=to);
    (mixed + c) % (to - from + 1) + from
}

/// Clause 4.3.2.3: a last name, of three syllables for the three digits of a number below 1000.
pub(super) fn last_name(number: i32) -> String {
    const SYLLABLES: [&str; 10] =
        ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    [number / 100, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

/// Letters and digits.
pub(super) fn letters(rng: &mut Random, from: usize, to: usize) -> String {
    const SIGNS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let length = rng.random_range(from..=to);
    (0..length).map(|_| char::from(SIGNS[rng.random_range(0..SIGNS.len())])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_read_as_it_is_sent() {
        let read = |words: &[i16]| {
            let raw: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            Cents::from_sql(&Type::NUMERIC, &raw).expect("it is a numeric")
        };
        assert_eq!(read(&[2, 0, 0, 2, 123, 4500]), Cents(12_345));
        assert_eq!(read(&[1, -1, 0x4000, 2, 700]), Cents(-7));
        assert_eq!(read(&[1, 1, 0, 2, 30]), Cents(30_000_000));
        assert_eq!(read(&[0, 0, 0, 2]), Cents(0));
        let mut out = BytesMut::new();
        Cents(-7).to_sql(&Type::NUMERIC, &mut out).expect("it is written");
        assert_eq!(&out[..], b"-0.07");
    }

    #[test]
    fn names_have_three_syllables() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
    }
}
