//! Patterns: LIKE, and enough of POSIX regular expressions for what clients ask of the catalog.
//!
//! A regular expression is matched by backtracking over its alternatives, with a bound on the steps,
//! so that no pattern takes for ever. Understood are `^ $ . [..] ( | ) * + ?` and `\` before a sign.

use crate::error::{SqlError, code};

const STEPS_MAX: usize = 200_000;

/// Whether a text is like a pattern: `%` stands for any characters, `_` for one.
pub fn like(text: &str, pattern: &str, folds: bool) -> bool {
    let fold = |text: &str| -> Vec<char> {
        if folds { text.to_lowercase().chars().collect() } else { text.chars().collect() }
    };
    let (text, pattern) = (fold(text), fold(pattern));
    let (mut t, mut p) = (0, 0);
    // Where to go on after the last `%`, if what follows it does not fit.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        let escaped = pattern.get(p) == Some(&'\\') && p + 1 < pattern.len();
        let wanted = pattern.get(p + usize::from(escaped));
        if !escaped && wanted == Some(&'%') {
            retry = Some((t, p + 1));
            p += 1;
        } else if (!escaped && wanted == Some(&'_')) || wanted == Some(&text[t]) {
            t += 1;
            p += 1 + usize::from(escaped);
        } else if let Some((from, after)) = retry {
            retry = Some((from + 1, after));
            (t, p) = (from + 1, after);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&c| c == '%')
}

#[derive(Debug)]
enum Node {
    Char(char),
    Any,
    Set(Vec<(char, char)>, bool),
    Start,
    End,
    Group(Vec<Vec<Node>>),
    Repeat(Box<Node>, usize, usize),
}

/// Whether a text has a part that a regular expression describes.
///
/// # Errors
/// 2201B if the pattern is none, 54001 if it takes too long.
pub fn regex(text: &str, pattern: &str, folds: bool) -> Result<bool, SqlError> {
    let fold = |text: &str| if folds { text.to_lowercase() } else { text.to_owned() };
    let signs: Vec<char> = fold(pattern).chars().collect();
    let mut at = 0;
    let alternatives = parse(&signs, &mut at, 0)?;
    if at < signs.len() {
        return Err(bad(pattern));
    }
    let text: Vec<char> = fold(text).chars().collect();
    let mut steps = 0;
    let group = [Node::Group(alternatives)];
    for start in 0..=text.len() {
        if matches(&group, &text, start, &mut steps, &mut |_| true)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn bad(pattern: &str) -> SqlError {
    SqlError::new("2201B", format!("invalid regular expression: {pattern}"))
        .hint("Understood are ^ $ . [..] ( | ) * + ? and a backslash before a sign.")
}

fn parse(signs: &[char], at: &mut usize, depth: usize) -> Result<Vec<Vec<Node>>, SqlError> {
    let wrong = || bad(&signs.iter().collect::<String>());
    if depth > 50 {
        return Err(wrong());
    }
    let mut alternatives = vec![Vec::new()];
    while let Some(&sign) = signs.get(*at) {
        *at += 1;
        let node = match sign {
            '|' => {
                alternatives.push(Vec::new());
                continue;
            }
            ')' if depth > 0 => {
                *at -= 1;
                break;
            }
            '(' => {
                if signs[*at..].starts_with(&['?', ':']) {
                    *at += 2;
                }
                let group = Node::Group(parse(signs, at, depth + 1)?);
                if signs.get(*at) != Some(&')') {
                    return Err(wrong());
                }
                *at += 1;
                group
            }
            '[' => parse_set(signs, at).ok_or_else(wrong)?,
            '.' => Node::Any,
            '^' => Node::Start,
            '$' => Node::End,
            '\\' => {
                *at += 1;
                Node::Char(*signs.get(*at - 1).ok_or_else(wrong)?)
            }
            '*' | '+' | '?' => {
                let list = alternatives.last_mut().expect("there is one at least");
                let node = Box::new(list.pop().ok_or_else(wrong)?);
                match sign {
                    '*' => Node::Repeat(node, 0, usize::MAX),
                    '+' => Node::Repeat(node, 1, usize::MAX),
                    _ => Node::Repeat(node, 0, 1),
                }
            }
            other => Node::Char(other),
        };
        alternatives.last_mut().expect("there is one at least").push(node);
    }
    Ok(alternatives)
}

fn parse_set(signs: &[char], at: &mut usize) -> Option<Node> {
    let negated = signs.get(*at) == Some(&'^');
    *at += usize::from(negated);
    let mut ranges = Vec::new();
    loop {
        let from = *signs.get(*at)?;
        *at += 1;
        if from == ']' && !ranges.is_empty() {
            return Some(Node::Set(ranges, negated));
        }
        if signs.get(*at) == Some(&'-') && signs.get(*at + 1).is_some_and(|&c| c != ']') {
            ranges.push((from, signs[*at + 1]));
            *at += 2;
        } else {
            ranges.push((from, from));
        }
    }
}

/// Tries the nodes one after the other from a place of the text; `rest` says whether what follows is
/// content with where they end.
fn matches(
    nodes: &[Node],
    text: &[char],
    at: usize,
    steps: &mut usize,
    rest: &mut dyn FnMut(usize) -> bool,
) -> Result<bool, SqlError> {
    let ends = ends(nodes, text, at, steps)?;
    Ok(ends.into_iter().any(rest))
}

/// All places where the nodes can end.
fn ends(
    nodes: &[Node],
    text: &[char],
    at: usize,
    steps: &mut usize,
) -> Result<Vec<usize>, SqlError> {
    let mut places = vec![at];
    for node in nodes {
        let mut next = Vec::new();
        for &place in &places {
            next.extend(node_ends(node, text, place, steps)?);
        }
        next.sort_unstable();
        next.dedup();
        places = next;
        if places.is_empty() {
            break;
        }
    }
    Ok(places)
}

fn node_ends(
    node: &Node,
    text: &[char],
    at: usize,
    steps: &mut usize,
) -> Result<Vec<usize>, SqlError> {
    *steps += 1;
    if *steps > STEPS_MAX {
        return Err(SqlError::new(code::TOO_COMPLEX, "the regular expression takes too long"));
    }
    let one = |holds: bool, length: usize| if holds { vec![at + length] } else { Vec::new() };
    let sign = text.get(at);
    Ok(match node {
        Node::Char(wanted) => one(sign == Some(wanted), 1),
        Node::Any => one(sign.is_some(), 1),
        Node::Set(ranges, negated) => {
            let inside = |c: &char| ranges.iter().any(|(from, to)| (from..=to).contains(&c));
            one(sign.is_some_and(|c| inside(c) != *negated), 1)
        }
        Node::Start => one(at == 0, 0),
        Node::End => one(at == text.len(), 0),
        Node::Group(alternatives) => {
            let mut all = Vec::new();
            for nodes in alternatives {
                all.extend(ends(nodes, text, at, steps)?);
            }
            all
        }
        Node::Repeat(inner, least, most) => {
            let mut all = if *least == 0 { vec![at] } else { Vec::new() };
            let mut places = vec![at];
            let mut round = 0;
            while round < *most && !places.is_empty() {
                round += 1;
                let mut next = Vec::new();
                for place in places {
                    next.extend(node_ends(inner, text, place, steps)?);
                }
                next.retain(|place| !all.contains(place));
                next.sort_unstable();
                next.dedup();
                if round >= *least {
                    all.extend(&next);
                }
                places = next;
            }
            all
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_patterns() {
        for (text, pattern, expected) in [
            ("abc", "a%", true),
            ("abc", "a_c", true),
            ("abc", "%b", false),
            ("a%c", "a\\%c", true),
            ("abc", "a\\%c", false),
            ("aXbXc", "a%X_", true),
            ("", "%", true),
        ] {
            assert_eq!(like(text, pattern, false), expected, "{text} {pattern}");
        }
        assert!(like("ABC", "abc", true));
    }

    #[test]
    fn regular_expressions() {
        for (text, pattern, expected) in [
            ("accounts", "^(accounts)$", true),
            ("accounts2", "^(accounts)$", false),
            ("pg_toast_1", "^pg_toast", true),
            ("xaab", "a+b", true),
            ("abc", "^[a-c]*$", true),
            ("abd", "^[^d]*$", false),
            ("a.c", "a\\.c", true),
            ("foo", "^(bar|fo*)$", true),
        ] {
            assert_eq!(regex(text, pattern, false), Ok(expected), "{text} {pattern}");
        }
        assert!(regex("a", "(", false).is_err() && regex("a", "*", false).is_err());
        let long = "a".repeat(3000);
        assert!(regex(&long, "(a*)*(a*)*(a*)*b", false).is_err());
    }
}
