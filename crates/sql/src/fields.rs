//! The fields of an interval type: `interval year to month`.
//!
//! A value of the type has no parts that are smaller than the last field. In a literal, a number
//! without a unit is of the last field. Larger parts than the first field stay, as in PostgreSQL.
//!
//! ```text
//!   interval '1 2:03:04' day to hour   1 day 02:00:00
//!   interval '14' month                1 year 2 mons
//! ```

/// See the [module documentation](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fields {
    /// YEAR
    Year,
    /// MONTH
    Month,
    /// DAY
    Day,
    /// HOUR
    Hour,
    /// MINUTE
    Minute,
    /// SECOND
    Second,
    /// YEAR TO MONTH
    YearToMonth,
    /// DAY TO HOUR
    DayToHour,
    /// DAY TO MINUTE
    DayToMinute,
    /// DAY TO SECOND
    DayToSecond,
    /// HOUR TO MINUTE
    HourToMinute,
    /// HOUR TO SECOND
    HourToSecond,
    /// MINUTE TO SECOND
    MinuteToSecond,
}

impl Fields {
    const ALL: [Fields; 13] = [
        Fields::Year,
        Fields::Month,
        Fields::Day,
        Fields::Hour,
        Fields::Minute,
        Fields::Second,
        Fields::YearToMonth,
        Fields::DayToHour,
        Fields::DayToMinute,
        Fields::DayToSecond,
        Fields::HourToMinute,
        Fields::HourToSecond,
        Fields::MinuteToSecond,
    ];

    /// The fields with this name in lower case: `day to second`.
    pub(crate) fn of_name(name: &str) -> Option<Fields> {
        Fields::ALL.into_iter().find(|fields| fields.name() == name)
    }

    /// The fields with these bits in PostgreSQL's type modifier.
    pub(crate) fn of_bits(bits: i32) -> Option<Fields> {
        Fields::ALL.into_iter().find(|fields| fields.bits() == bits)
    }

    /// The bits in PostgreSQL's type modifier: one for each field.
    pub(crate) fn bits(self) -> i32 {
        const BITS: [(&str, i32); 6] = [
            ("year", 1 << 2),
            ("month", 1 << 1),
            ("day", 1 << 3),
            ("hour", 1 << 10),
            ("minute", 1 << 11),
            ("second", 1 << 12),
        ];
        let at = |name: &str| BITS.iter().position(|(of, _)| *of == name).expect("it is a field");
        let (first, last) = self.ends();
        BITS[at(first)..=at(last)].iter().map(|(_, bit)| bit).sum()
    }

    fn ends(self) -> (&'static str, &'static str) {
        let name = self.name();
        name.split_once(" to ").unwrap_or((name, name))
    }

    fn name(self) -> &'static str {
        match self {
            Fields::Year => "year",
            Fields::Month => "month",
            Fields::Day => "day",
            Fields::Hour => "hour",
            Fields::Minute => "minute",
            Fields::Second => "second",
            Fields::YearToMonth => "year to month",
            Fields::DayToHour => "day to hour",
            Fields::DayToMinute => "day to minute",
            Fields::DayToSecond => "day to second",
            Fields::HourToMinute => "hour to minute",
            Fields::HourToSecond => "hour to second",
            Fields::MinuteToSecond => "minute to second",
        }
    }

    /// The name of the smallest field.
    pub(crate) fn last(self) -> &'static str {
        self.ends().1
    }
}

impl std::fmt::Display for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_names_and_by_their_bits() {
        for fields in Fields::ALL {
            assert_eq!(Fields::of_name(&fields.to_string()), Some(fields));
            assert_eq!(Fields::of_bits(fields.bits()), Some(fields));
        }
        // As in PostgreSQL's typmodin: the modifiers of `interval year to month`, `day to second`.
        assert_eq!((Fields::YearToMonth.bits(), Fields::DayToSecond.bits()), (6, 7176));
        assert_eq!((Fields::of_name("month to year"), Fields::of_bits(0x7fff)), (None, None));
    }
}
