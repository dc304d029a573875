//! Options that make no workload.

use thiserror::Error;

/// Why a workload cannot be made with the options given.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum OptionsError {
    /// A number that is too small.
    #[error("{given} {what}: at least {least} are needed")]
    TooFew {
        /// What there has to be more of.
        what: &'static str,
        /// What was given.
        given: u64,
        /// What is needed.
        least: u64,
    },
    /// A number that is too large.
    #[error("{given} {what}: at most {most} are possible")]
    TooMany {
        /// What there has to be less of.
        what: &'static str,
        /// What was given.
        given: u64,
        /// What is possible.
        most: u64,
    },
    /// A share that is no share.
    #[error("{what} is {given}: a share lies between 0 and 1")]
    Share {
        /// The option.
        what: &'static str,
        /// What was given.
        given: f64,
    },
    /// An exponent that gives no distribution.
    #[error("a Zipf distribution with the exponent {given}: give a number from 0 to 100")]
    Exponent {
        /// What was given.
        given: f64,
    },
}

/// Refuses numbers outside a range.
pub(crate) fn check_count(
    what: &'static str,
    given: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Result<(), OptionsError> {
    if given < *range.start() {
        return Err(OptionsError::TooFew { what, given, least: *range.start() });
    }
    if given > *range.end() {
        return Err(OptionsError::TooMany { what, given, most: *range.end() });
    }
    Ok(())
}

/// Refuses what is no share.
pub(crate) fn check_share(what: &'static str, given: f64) -> Result<(), OptionsError> {
    if (0.0..=1.0).contains(&given) { Ok(()) } else { Err(OptionsError::Share { what, given }) }
}
