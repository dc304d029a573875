//! Options that several benchmarks share, and how they are written.

use isomer_cluster::Durability;
use isomer_workload::{Companions, HotSpot, Skew};
use std::path::PathBuf;
use std::time::Duration;

/// Options of all benchmarks on a database.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Common {
    /// Sites of the database
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) sites: u16,
    /// Clients that run transactions at once
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: u16,
    /// Seconds of the measurement
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// Seed of the run
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The strategy for transactions that no single site can run
    #[arg(long, value_enum, default_value_t = StrategyName::OnDemand)]
    pub(crate) strategy: StrategyName,
    /// Shows the last N decisions of the autopilot, and what it has learned
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) decisions: usize,
    /// The initial placement of partitions
    #[arg(long, value_enum, default_value_t = isomer::work::Spread::Range)]
    pub(crate) spread: isomer::work::Spread,
    /// Keys in each partition at the beginning
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) partition_keys: u64,
    /// Keeps the database in a new folder (default: in memory)
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// Durability of commits, with --folder: commit, interval:50ms or none
    #[arg(long, value_parser = durability, requires = "folder")]
    pub(crate) durability: Option<Durability>,
    /// Prints one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A strategy, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum StrategyName {
    /// The design never changes: a transaction over several sites is refused
    Static,
    /// The design never changes: a transaction over several sites uses two-phase commit
    #[value(name = "static-2pc")]
    TwoPhase,
    /// Makes the necessary changes first
    OnDemand,
    /// The autopilot: makes the necessary changes, and those that pay
    Learned,
    /// When a site is overloaded, moves partitions that are accessed together
    Clay,
    /// When a site is overloaded, moves hot partitions
    #[value(name = "estore")]
    EStore,
    /// When a site is overloaded, makes backups masters
    #[value(name = "drtmb")]
    DrTmB,
}

impl Common {
    /// The durability of commits; without a folder there is none.
    pub(crate) fn durability(&self) -> Durability {
        match self.folder {
            Some(_) => self.durability.unwrap_or(Durability::Commit),
            None => Durability::None,
        }
    }
}

/// Reads `commit`, `interval:50ms` or `none`.
pub(crate) fn durability(text: &str) -> Result<Durability, String> {
    match text.split_once(':') {
        None if text == "commit" => Ok(Durability::Commit),
        None if text == "none" => Ok(Durability::None),
        Some(("interval", pause)) => {
            let ms = pause.strip_suffix("ms").and_then(|number| number.parse().ok());
            let ms = ms.filter(|ms| *ms > 0).ok_or_else(|| {
                format!("`{pause}` is no interval; write milliseconds, as in interval:50ms")
            })?;
            Ok(Durability::Interval(Duration::from_millis(ms)))
        }
        _ => Err(format!("`{text}` is none of: commit, interval:50ms, none")),
    }
}

/// The text that [`durability`] reads.
pub(crate) fn durability_text(durability: Durability) -> String {
    match durability {
        Durability::Commit => "commit".to_owned(),
        Durability::Interval(pause) => format!("interval:{}ms", pause.as_millis()),
        Durability::None => "none".to_owned(),
    }
}

/// Reads `uniform`, `zipf:0.99`, or `zipf:0.99:of:50000000` for the hottest rows of 50 million.
pub(crate) fn skew(text: &str) -> Result<Skew, String> {
    let exponent =
        |text: &str| text.parse().map_err(|_| format!("`{text}` is no number for an exponent"));
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        ["uniform"] => Ok(Skew::Uniform),
        ["zipf", number] => Ok(Skew::Zipf(exponent(number)?)),
        ["zipf", number, "of", count] => {
            let population =
                count.parse().map_err(|_| format!("`{count}` is no number of rows"))?;
            Ok(Skew::ZipfOf { exponent: exponent(number)?, population })
        }
        _ => Err(format!("`{text}` is none of: uniform, zipf:0.99, zipf:0.99:of:50000000")),
    }
}

/// Reads `uniform`, or `hot:1000:0.9` for a thousand customers in 90 % of the transactions.
pub(crate) fn hot_spot(text: &str) -> Result<Option<HotSpot>, String> {
    let mut parts = text.split(':');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some("uniform"), None, ..) => Ok(None),
        (Some("hot"), Some(customers), Some(share), None) => {
            let customers = customers
                .parse()
                .map_err(|_| format!("`{customers}` is no number of customers"))?;
            let share = share.parse().map_err(|_| format!("`{share}` is no share"))?;
            Ok(Some(HotSpot { customers, share }))
        }
        _ => Err(format!("`{text}` is none of: uniform, hot:1000:0.9")),
    }
}

/// Reads `independent` or `near:1000`.
pub(crate) fn companions(text: &str) -> Result<Companions, String> {
    match text.split_once(':') {
        None if text == "independent" => Ok(Companions::Independent),
        Some(("near", distance)) => {
            let number = distance.parse().map_err(|_| format!("`{distance}` is no distance"))?;
            Ok(Companions::Near(number))
        }
        _ => Err(format!("`{text}` is none of: independent, near:1000")),
    }
}

/// Reads the share of scans: `read-mostly`, `write-heavy`, `update` or a number.
pub(crate) fn scan_share(text: &str) -> Result<f64, String> {
    match text {
        "read-mostly" => Ok(0.5),
        "write-heavy" => Ok(0.1),
        "update" => Ok(0.0),
        _ => text.strip_prefix("scans:").and_then(|share| share.parse().ok()).ok_or_else(|| {
            format!("`{text}` is none of: read-mostly, write-heavy, update, scans:0.3")
        }),
    }
}

/// Reads `standard`, or the six weights of the procedures of SmallBank.
pub(crate) fn weights(text: &str) -> Result<[u32; 6], String> {
    if text == "standard" {
        return Ok([15, 15, 15, 25, 15, 15]);
    }
    let weights: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
    weights.ok().and_then(|weights| weights.try_into().ok()).ok_or_else(|| {
        format!("`{text}` is neither `standard` nor six weights such as 15,15,15,25,15,15")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_read_what_they_say() {
        assert_eq!(
            durability("interval:50ms"),
            Ok(Durability::Interval(Duration::from_millis(50)))
        );
        for text in ["commit", "interval:7ms", "none"] {
            assert_eq!(durability(text).map(durability_text), Ok(text.to_owned()));
        }
        assert_eq!(skew("zipf:0.99"), Ok(Skew::Zipf(0.99)));
        let of_many = Skew::ZipfOf { exponent: 0.5, population: 1000 };
        assert_eq!(skew("zipf:0.5:of:1000"), Ok(of_many));
        assert_eq!(companions("near:10"), Ok(Companions::Near(10)));
        assert_eq!(hot_spot("hot:10:0.5"), Ok(Some(HotSpot { customers: 10, share: 0.5 })));
        assert_eq!(scan_share("scans:0.3"), Ok(0.3));
        assert_eq!(weights("1,2,3,4,5,6"), Ok([1, 2, 3, 4, 5, 6]));
    }

    #[test]
    fn errors_name_the_text_that_cannot_be_read() {
        assert_eq!(
            skew("zapf").unwrap_err(),
            "`zapf` is none of: uniform, zipf:0.99, zipf:0.99:of:50000000"
        );
        assert!(durability("interval:fast").unwrap_err().contains("`fast` is no interval"));
        assert!(durability("interval:0ms").is_err());
        assert!(weights("1,2").unwrap_err().contains("six weights"));
        assert!(hot_spot("hot:x:0.5").unwrap_err().contains("`x`"));
    }
}
