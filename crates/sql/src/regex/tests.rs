//! All expected results are PostgreSQL's.

use super::*;

fn regex(expression: &str) -> Result<Regex, SqlError> {
    Regex::new(expression, Flags::default())
}

fn holds(text: &str, expression: &str) -> bool {
    let regex = regex(expression).expect("an expression");
    regex.is_in(text, &Budget::unlimited()).expect("there is room")
}

/// The whole, and the groups.
fn parts(text: &str, expression: &str) -> Option<(String, Vec<Option<String>>)> {
    let regex = regex(expression).expect("an expression");
    let found = regex.find(text, &Budget::unlimited()).expect("there is room")?;
    let part = |part: &Range<usize>| text[part.clone()].to_owned();
    let groups = found.groups.iter().map(|group| group.as_ref().map(part)).collect();
    Some((part(&found.whole), groups))
}

#[test]
fn whether_a_text_fits() {
    for (text, expression, expected) in [
        ("accounts", "^(accounts)$", true),
        ("accounts2", "^(accounts)$", false),
        ("pg_toast_1", "^pg_toast", true),
        ("xaab", "a+b", true),
        ("abc", "^[a-c]*$", true),
        ("abd", "^[^d]*$", false),
        ("a.c", "a\\.c", true),
        ("foo", "^(bar|fo*)$", true),
        ("", "", true),
        ("", "^$", true),
        ("ab", "^(a|b|)*$", true),
        ("ac", "ab?c", true),
        ("abbc", "ab?c", false),
        ("b", "^a+", false),
        ("xay", "^(x|y)(a?)+(x|y)$", true),
        ("aaa", "^a{2}$", false),
        ("aaa", "^a{2,}$", true),
        ("a{,2}", "a{,2}", true),
        ("é1", "^[[:alpha:]]\\d$", true),
        ("a-b]", "^[]ab-]+$", true),
        ("\tz", "^[\\s]z", true),
        ("foo bar", "\\mbar\\M", true),
        ("foobar", "\\mbar", false),
        ("ab", "a(?=b)b*", true),
        ("a", "a(?=b)b*", false),
        ("abb", "(?<=a)b*", true),
        ("b", "(?<!a)b", true),
        ("bbbbb", "^([bc])\\1*$", true),
        ("bbc", "^([bc])\\1*$", false),
        ("abc abd abc", "^(\\w+)( \\1)+$", false),
        ("Programmer", "(\\w).*?\\1", true),
        ("a", "((((((a)*)*)*)*)*)*", true),
        ("a", "($|^)*", true),
        ("ABC", "(?i)a[b]c", true),
        ("a\nb", "(?n)^b$", true),
        ("a b", "(?x) a \\s b # so", true),
        ("a.b", "***=a.b", true),
        ("axb", "***=a.b", false),
    ] {
        assert_eq!(holds(text, expression), expected, "{text} {expression}");
    }
}

#[test]
fn the_longest_or_shortest_match_and_its_groups() {
    for (text, expression, whole, groups) in [
        ("foobar", "fo(o|ob)(b?ar)", "foobar", &[Some("ob"), Some("ar")][..]),
        ("abcd", "(a|ab)(c|bcd)(d*)", "abcd", &[Some("ab"), Some("c"), Some("d")]),
        ("foobarbequebaz", "ba.", "bar", &[]),
        ("XY1234Z", "Y*([0-9]{1,3})", "Y123", &[Some("123")]),
        ("XY1234Z", "Y*?([0-9]{1,3})", "Y1", &[Some("1")]),
        (
            "abc0123xyz",
            "(?:(.*?)(\\d+)(.*)){1,1}",
            "abc0123xyz",
            &[Some("abc"), Some("0123"), Some("xyz")],
        ),
        ("abc0123xyz", "(.*?)(\\d+)(.*)", "abc0", &[Some("abc"), Some("0"), Some("")]),
        (
            "foo/bar/baz",
            "^([^/]+?)(?:/([^/]+?))(?:/([^/]+?))?$",
            "foo/bar/baz",
            &[Some("foo"), Some("bar"), Some("baz")],
        ),
        ("llmmmfff", "^(l*)(.*)(f*)$", "llmmmfff", &[Some("ll"), Some("mmmfff"), Some("")]),
        ("llmmmfff", "^(l*){1,1}?(.*)(f*)$", "llmmmfff", &[Some(""), Some("llmmmfff"), Some("")]),
        ("llmmmfff", "^(l*){1,1}?(.*)(f*)$", "llmmmfff", &[Some(""), Some("llmmmfff"), Some("")]),
        ("yy", "(y*)+z?", "yy", &[Some("")]),
        ("yy", "(y*)*z?", "yy", &[Some("yy")]),
        ("yyy", "(y|yy)+", "yyy", &[Some("y")]),
        ("a", "((a))+", "a", &[Some("a"), Some("a")]),
        ("ab", "((a)|b)*", "ab", &[Some("b"), None]),
        ("Programmer", "(\\w)(.*?\\1)", "rogr", &[Some("r"), Some("ogr")]),
        ("äöü", "ö(.)", "öü", &[Some("ü")]),
    ] {
        let groups = groups.iter().map(|group| group.map(str::to_owned)).collect();
        assert_eq!(
            parts(text, expression),
            Some((whole.to_owned(), groups)),
            "{text} {expression}"
        );
    }
    assert_eq!(parts("abc", "d"), None);
}

#[test]
fn invalid_expressions_are_refused() {
    for (expression, what) in [
        ("(", "parentheses () not balanced"),
        (")", "parentheses () not balanced"),
        ("*", "quantifier operand invalid"),
        ("a**", "quantifier operand invalid"),
        ("^*", "quantifier operand invalid"),
        ("[a", "brackets [] not balanced"),
        ("[z-a]", "invalid character range"),
        ("[[:none:]]", "invalid character class"),
        ("a{2,1}", "invalid repetition count(s)"),
        ("a{256}", "invalid repetition count(s)"),
        ("a{1", "braces {} not balanced"),
        ("\\", "invalid escape \\ sequence"),
        ("\\q", "invalid escape \\ sequence"),
        ("\\x7fffffff", "invalid escape \\ sequence"),
        ("(a\\1)", "invalid backreference number"),
        ("x(\\w)(?=\\1)", "invalid backreference number"),
    ] {
        let error = regex(expression).err().expect(expression);
        assert_eq!(error.code, "2201B");
        assert_eq!(error.message, format!("invalid regular expression: {what}"), "{expression}");
    }
    assert_eq!(regex(&"a".repeat(20_000)).err().expect("a refusal").code, code::TOO_COMPLEX);
    let large = regex("((a{255}){255}){255}").expect("an expression");
    assert_eq!(large.is_in("a", &Budget::unlimited()).unwrap_err().code, "2201B");
}

#[test]
fn no_expression_takes_long() {
    let long = "a".repeat(30_000);
    assert!(!holds(&long, "(a*)*(a*)*(a*)*b"));
    let found = parts(&long[..1000], "(a*)*(a|aa)*(a)").expect("it fits");
    assert_eq!(found.1[2].as_deref(), Some("a"));
}

#[test]
fn patterns_of_similar_to() {
    let similar = |pattern: &str, escape: &str| similar(pattern, escape, &Budget::unlimited());
    assert_eq!(similar("a%(b|c)_.", "\\").as_deref(), Ok("^(?:a.*(?:b|c).\\.)$"));
    assert_eq!(similar("a#\"%#\"g", "#").as_deref(), Ok("^(?:a){1,1}?(.*){1,1}(?:g)$"));
    assert_eq!(similar("a#\"%#\"x#\"g", "#").unwrap_err().code, "2200C");
    assert_eq!(similar("a", "ab").unwrap_err().code, "22025");
}
