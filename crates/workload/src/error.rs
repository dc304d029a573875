//! Errors for invalid options of workloads.

use thiserror::Error;

/// Why a workload cannot be created with the given options.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum OptionsError {
    /// A number is too small.
    #[error("{given} {what}: at least {least} are needed")]
    TooFew {
        /// The thing that is counted.
        what: &'static str,
        /// The given number.
        given: u64,
        /// The smallest allowed number.
        least: u64,
    },
    /// A number is too large.
    #[error("{given} {what}: at most {most} are possible")]
    TooMany {
        /// The thing that is counted.
        what: &'static str,
        /// The given number.
        given: u64,
        /// The largest allowed number.
        most: u64,
    },
    /// A share is not between 0 and 1.
    #[error("{what} is {given}: a share lies between 0 and 1")]
    Share {
        /// The option.
        what: &'static str,
        /// The given value.
        given: f64,
    },
    /// No Zipf distribution has this exponent.
    #[error("a Zipf distribution with the exponent {given}: give a number from 0 to 100")]
    Exponent {
        /// The given exponent.
        given: f64,
    },
}

/// Returns an error if a number is outside of a range.
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

/// Returns an error unless a share is between 0 and 1.
pub(crate) fn check_share(what: &'static str, given: f64) -> Result<(), OptionsError> {
    if (0.0..=1.0).contains(&given) { Ok(()) } else { Err(OptionsError::Share { what, given }) }
}
