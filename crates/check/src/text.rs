//! The text format of transactions. See [`history`](crate::history).

use crate::history::{Level, Op, Outcome, Transaction};
use std::fmt::{self, Display};
use std::str::FromStr;

impl Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Append(key, value) => write!(f, "append {key} {value}"),
            Op::Read(key, values) => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                write!(f, "read {key} [{}]", values.join(" "))
            }
        }
    }
}

impl Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(session) = &self.session {
            write!(f, " {session}")?;
        }
        if let Some(begun) = self.begun {
            write!(f, " {begun}..")?;
            self.ended.map_or(Ok(()), |ended| write!(f, "{ended}"))?;
        }
        match self.outcome {
            Outcome::Committed => {}
            Outcome::Failed => f.write_str(" failed")?,
            Outcome::Unknown => f.write_str(" unknown")?,
        }
        match self.level {
            Level::ReadCommitted => f.write_str(" read-committed")?,
            Level::Snapshot => {}
            Level::Serializable => f.write_str(" serializable")?,
        }
        f.write_str(":")?;
        for (at, statement) in self.statements.iter().enumerate() {
            let ops: Vec<String> = statement.iter().map(ToString::to_string).collect();
            write!(f, "{} {}", if at == 0 { "" } else { ";" }, ops.join(", "))?;
        }
        Ok(())
    }
}

impl FromStr for Transaction {
    type Err = String;

    fn from_str(line: &str) -> Result<Transaction, String> {
        let (head, ops) = line.split_once(':').ok_or_else(|| {
            format!("`{line}` has no `:`; write for example `a: read x [1]; append x 2`")
        })?;
        let mut words = head.split_whitespace();
        let name = words.next().ok_or_else(|| format!("`{line}` names no transaction"))?;
        let mut transaction = Transaction { name: name.to_owned(), ..Transaction::default() };
        for word in words {
            transaction.take(word)?;
        }
        let statements = ops.split(';').filter(|statement| !statement.trim().is_empty());
        let ops = statements.map(|statement| statement.split(',').map(str::parse).collect());
        transaction.statements = ops.collect::<Result<_, String>>()?;
        Ok(transaction)
    }
}

impl Transaction {
    /// Parses a word between the name and the colon.
    fn take(&mut self, word: &str) -> Result<(), String> {
        let step = |text: &str| text.parse().map_err(|_| format!("`{word}` is no span of steps"));
        match word {
            "failed" => self.outcome = Outcome::Failed,
            "unknown" => self.outcome = Outcome::Unknown,
            "read-committed" => self.level = Level::ReadCommitted,
            "snapshot" => self.level = Level::Snapshot,
            "serializable" => self.level = Level::Serializable,
            _ => match word.split_once("..") {
                Some((begun, ended)) => {
                    self.begun = Some(step(begun)?);
                    self.ended =
                        Some(ended).filter(|ended| !ended.is_empty()).map(step).transpose()?;
                }
                None => self.session = Some(word.to_owned()),
            },
        }
        Ok(())
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(text: &str) -> Result<Op, String> {
        let wrong = || format!("`{}` is neither `read x [1 2]` nor `append x 3`", text.trim());
        let (verb, rest) = text.trim().split_once(' ').ok_or_else(wrong)?;
        let (key, what) = rest.split_once(' ').ok_or_else(wrong)?;
        let number = |word: &str| word.parse().map_err(|_| wrong());
        match verb {
            "append" => Ok(Op::Append(key.to_owned(), number(what.trim())?)),
            "read" => {
                let list = what.trim().strip_prefix('[').and_then(|list| list.strip_suffix(']'));
                let values = list.ok_or_else(wrong)?.split_whitespace().map(number);
                Ok(Op::Read(key.to_owned(), values.collect::<Result<_, _>>()?))
            }
            _ => Err(wrong()),
        }
    }
}
