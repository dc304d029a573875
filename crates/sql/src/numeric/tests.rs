use super::*;
use crate::budget::Budget;
use std::hash::DefaultHasher;

fn decimal(text: &str) -> Decimal {
    Decimal::parse(text).unwrap_or_else(|| panic!("{text} is a number"))
}

fn hash(number: &Decimal) -> u64 {
    let mut state = DefaultHasher::new();
    number.hash(&mut state);
    state.finish()
}

/// Random numbers, by a linear congruence.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % end
    }

    /// Short and long numbers, of similar and of very different size, with trailing zeros.
    fn number(&mut self) -> String {
        let lengths = [1, 2, 5, 17, 19, 38, 39, 60, 200];
        let digits = |chance: &mut Chance, most: usize| -> String {
            let length = chance.below(most + 1);
            (0..length).map(|_| ["0", "0", "1", "9", "5", "7"][chance.below(6)]).collect()
        };
        let (whole, fraction) = (lengths[self.below(9)], lengths[self.below(9)]);
        let (whole, fraction) = (digits(self, whole), digits(self, fraction));
        let sign = ["", "-"][self.below(2)];
        match self.below(25) {
            0 => ["NaN", "Infinity", "-Infinity"][self.below(3)].to_owned(),
            1 => format!("{sign}1{fraction}e{}", self.below(300)),
            _ => format!("{sign}0{whole}.{fraction}0"),
        }
    }
}

#[test]
fn arithmetic_is_exact() {
    let cases = [
        ("0.10", "+", "0.2", "0.30"),
        ("1.50", "*", "1.50", "2.2500"),
        ("10", "/", "4", "2.5000000000000000"),
        ("1", "/", "3", "0.33333333333333333333"),
        ("2", "/", "3", "0.66666666666666666667"),
        ("100", "/", "3", "33.3333333333333333"),
        ("-7.5", "%", "2", "-1.5"),
        ("5", "-", "7.25", "-2.25"),
        ("1e40", "+", "0.5", "10000000000000000000000000000000000000000.5"),
        ("-1e40", "*", "1e-40", "-1.0000000000000000000000000000000000000000"),
        ("1e50", "/", "1e49", "10.0000000000000000"),
        ("1e50", "%", "3", "1"),
        ("Infinity", "-", "Infinity", "NaN"),
        ("Infinity", "*", "-2", "-Infinity"),
        ("Infinity", "*", "0", "NaN"),
        ("1", "/", "Infinity", "0"),
        ("7", "%", "Infinity", "7"),
        ("NaN", "+", "1", "NaN"),
    ];
    for (a, op, b, result) in cases {
        let (x, y) = (decimal(a), decimal(b));
        let found = match op {
            "+" => x.plus(&y),
            "-" => x.minus(&y),
            "*" => x.times(&y),
            "/" => x.over(&y),
            _ => x.modulo(&y),
        };
        assert_eq!(found.expect("it fits").to_string(), result, "{a} {op} {b}");
    }
}

#[test]
fn short_and_long_numbers_compute_alike() {
    // Properties of all numbers, tested with some that fit an i128 and some that do not.
    let mut chance = Chance(7);
    for _ in 0..20_000 {
        let (a, b) = (decimal(&chance.number()), decimal(&chance.number()));
        let sum = a.plus(&b).expect("a sum");
        assert_eq!(sum, b.plus(&a).expect("a sum"));
        assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        assert_eq!(a == b, hash(&a) == hash(&b), "{a} {b}");
        if !a.is_finite() || !b.is_finite() {
            continue;
        }
        assert_eq!(sum.minus(&b).expect("a difference"), a);
        assert_eq!(sum.scale(), a.scale().max(b.scale()));
        assert_eq!(a.cmp(&b), a.minus(&b).expect("a difference").signum().cmp(&0), "{a} {b}");
        let product = a.times(&b).expect("a product");
        assert_eq!(product.shown_scale(), a.shown_scale() + b.shown_scale());
        if b.is_zero() {
            continue;
        }
        assert_eq!(product.divided(&b, a.shown_scale(), true).expect("a quotient"), a);
        let (whole, rest) = (a.whole_quotient(&b).expect("one"), a.modulo(&b).expect("a rest"));
        assert_eq!(whole.times(&b).expect("a product").plus(&rest).expect("a sum"), a);
        assert!(rest.abs() < b.abs());
    }
}

#[test]
fn numbers_come_back_from_text_groups_and_keys() {
    let mut chance = Chance(1);
    let mut all: Vec<(Decimal, Vec<u8>)> = Vec::new();
    let column = isomer_design::Column::new("n", isomer_design::ColumnType::Numeric);
    let schema = isomer_design::Schema::new("t", vec![column], &["n"]).expect("a schema");
    for _ in 0..2000 {
        let number = decimal(&chance.number());
        let text = number.to_string();
        assert_eq!(decimal(&text).to_string(), text);
        let mut groups = Vec::new();
        number.encode(&mut groups);
        assert_eq!(Decimal::decode(&groups).expect("a number").to_string(), text, "{groups:?}");
        let value = isomer_design::Value::Text(text);
        let key = schema.encode_key(std::slice::from_ref(&value)).expect("a key");
        let kept = schema.decode_key(&key).expect("a value");
        let isomer_design::Value::Text(kept) = &kept[0] else { panic!("{kept:?}") };
        assert_eq!(decimal(kept), number);
        assert_eq!(decimal(kept).scale(), number.trim().scale());
        all.push((number, key.as_bytes().to_vec()));
    }
    all.sort_by(|a, b| a.1.cmp(&b.1));
    for pair in all.windows(2) {
        assert_eq!(pair[0].0.cmp(&pair[1].0), pair[0].1.cmp(&pair[1].1), "{:?}", pair);
    }
}

#[test]
fn the_short_form_is_used_where_it_can_be() {
    for text in ["1e38", "-170141183460469231731687303715884105727", "0.00", "1e-300"] {
        assert!(matches!(decimal(text).0, Shape::Short(..)), "{text}");
        assert_eq!(decimal(text).heap_bytes(), 0);
    }
    let long = decimal("170141183460469231731687303715884105728");
    assert!(matches!(long.0, Shape::Long(..)) && long.heap_bytes() > 0);
    assert!(matches!(long.minus(&Decimal::int(1)).expect("it fits").0, Shape::Short(..)));
    assert!(matches!(long.negated().0, Shape::Long(..)));
    assert!(size_of::<crate::datum::Datum>() <= 32, "{}", size_of::<crate::datum::Datum>());
}

#[test]
fn digits_behind_the_point_are_rounded_and_cut() {
    let cases = [
        ("2.345", 2, "2.35", "2.34"),
        ("-2.345", 2, "-2.35", "-2.34"),
        ("1550", -2, "1600", "1500"),
        ("-149", -2, "-100", "-100"),
        ("49", -2, "0", "0"),
        ("50", -2, "100", "0"),
        ("1.5", 5, "1.50000", "1.50000"),
        (
            "1e40",
            -40,
            "10000000000000000000000000000000000000000",
            "10000000000000000000000000000000000000000",
        ),
        ("6e40", -41, "100000000000000000000000000000000000000000", "0"),
        ("Infinity", 2, "Infinity", "Infinity"),
    ];
    for (number, digits, rounded, cut) in cases {
        let number = decimal(number);
        assert_eq!(number.rescale(digits).expect("it fits").to_string(), rounded, "{number}");
        assert_eq!(number.truncate(digits).expect("it fits").to_string(), cut, "{number}");
    }
    for (number, floor, ceil) in [("-1.5", "-2", "-1"), ("1.5", "1", "2"), ("-3", "-3", "-3")] {
        assert_eq!(decimal(number).floor().expect("it fits").to_string(), floor);
        assert_eq!(decimal(number).ceil().expect("it fits").to_string(), ceil);
    }
}

#[test]
fn irrational_results_are_those_of_postgresql() {
    let budget = &*Budget::unlimited();
    let log = |base: &str, of: &str| decimal(of).log(&decimal(base), budget);
    let power = |base: &str, exponent: &str| decimal(base).power(&decimal(exponent), budget);
    let cases = [
        (decimal("2").root(budget), "1.414213562373095"),
        (decimal("12345.6").root(budget), "111.1107555549867"),
        (decimal("0.0001").root(budget), "0.01000000000000000"),
        (decimal("1e-30").root(budget), "0.0000000000000010000000000000000"),
        (decimal("123456789012.5").root(budget), "351364.18288223403"),
        (decimal("1.0").exp(budget), "2.7182818284590452"),
        (decimal("0.0").exp(budget), "1.0000000000000000"),
        (
            decimal("123.456").exp(budget),
            "413294435277809344957685441227343146614594393746575438.725",
        ),
        (
            decimal("-123.456").exp(budget),
            "0.000000000000000000000000000000000000000000000000000002419582541264601",
        ),
        (decimal("2.0").ln(budget), "0.6931471805599453"),
        (decimal("1.001").ln(budget), "0.0009995003330835332"),
        (decimal("1e100").ln(budget), "230.25850929940457"),
        (log("10", "100.0"), "2.0000000000000000"),
        (log("3.0", "27.000"), "3.0000000000000000"),
        (power("2", "10"), "1024.0000000000000000"),
        (power("2", "0.5"), "1.4142135623730950"),
        (power("2", "-3.0"), "0.1250000000000000"),
        (power("3.789", "21"), "1409343026052.8716016316022141"),
        (power("3.789", "35"), "177158169650516670809.3820586142670135"),
        (power("1.2", "345"), "2077446682327378559843444695.5827049735727869"),
        (power("0.12", "-20"), "2608405330458882702.5529619561355838"),
        (power("1.000000000123", "-2147483648"), "0.7678656556403084"),
        (decimal("12.50").gcd(&decimal("7.5"), budget), "2.50"),
        (decimal("1.20").lcm(&decimal("0.9"), budget), "3.60"),
        (Decimal::factorial(20, budget), "2432902008176640000"),
    ];
    for (found, shown) in cases {
        assert_eq!(found.expect("it is there").to_string(), shown);
    }
}

#[test]
fn overflow_is_an_error() {
    let budget = &*Budget::unlimited();
    let large = decimal("1e131071");
    assert_eq!(large.times(&large).unwrap_err().code, code::OUT_OF_RANGE);
    assert_eq!(large.times(&Decimal::int(10)).unwrap_err().code, code::OUT_OF_RANGE);
    assert_eq!(large.times(&Decimal::int(9)).expect("it fits").digit_count(), 131_072);
    assert_eq!(large.over(&decimal("0")).unwrap_err().code, code::DIVISION_BY_ZERO);
    assert_eq!(
        Decimal::int(10).power(&Decimal::int(131_072), budget).unwrap_err().code,
        code::OUT_OF_RANGE
    );
    for text in ["", "-", ".", "1.2.3", "x", "1e", "--1", "1e+", "1_000", "0x10", "infinite"] {
        assert_eq!(Decimal::read(text).unwrap_err(), Unreadable::Syntax, "{text}");
    }
    for text in ["1e131072", "1e999999999999", "1.5e-2147483648", "1e-16384", "0e-16384"] {
        assert_eq!(Decimal::read(text).unwrap_err(), Unreadable::Overflow, "{text}");
    }
    assert_eq!(decimal("0e200000").to_string(), "0");
    assert_eq!(decimal("1.5e3").to_string(), "1500");
}

#[test]
fn long_computations_can_be_cancelled() {
    use crate::budget::Account;
    let account = Account::new("a statement", "--statement-mb", 1 << 20, None);
    let canceled = || Err(SqlError::new(code::CANCELED, "enough"));
    let budget = &*Budget::new(account, usize::MAX, Box::new(canceled));
    let ended =
        [Decimal::factorial(30_000, budget), decimal("3").power(&decimal("200000"), budget)];
    for found in ended {
        assert_eq!(found.unwrap_err().code, code::CANCELED);
    }
}
