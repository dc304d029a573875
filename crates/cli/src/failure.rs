//! Failures of commands, and their exit codes.

use isomer_sql::SqlError;
use std::fmt::Display;
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// A request that makes no sense: exit code 2.
    Usage(String),
    /// The command could not do its work: exit code 1.
    Failed(String),
    /// The command has printed the reason already: exit code 1.
    Told,
}

impl Failure {
    /// A request that makes no sense.
    pub fn usage(what: impl Display) -> Failure {
        Failure::Usage(what.to_string())
    }

    /// A command that could not do its work.
    pub fn failed(what: impl Display) -> Failure {
        Failure::Failed(what.to_string())
    }

    /// An error of SQL that no client has asked for, so its code says nothing.
    pub(crate) fn of_engine(error: &SqlError) -> Failure {
        let detail = error.detail.iter().map(|detail| format!("; {detail}"));
        let hint = error.hint.iter().map(|hint| format!(" ({hint})"));
        Failure::Failed(detail.chain(hint).fold(error.message.clone(), |all, more| all + &more))
    }

    /// An error that a server returned, with its SQLSTATE and hint.
    pub fn of_server(what: &str, error: &postgres::Error) -> Failure {
        match error.as_db_error() {
            Some(of_server) => Failure::failed(format!(
                "{what}: {} {}{}",
                of_server.code().code(),
                of_server.message(),
                of_server.hint().map(|hint| format!(" ({hint})")).unwrap_or_default()
            )),
            None => Failure::failed(format!("{what}: {error}")),
        }
    }

    /// Prints the reason on standard error, and returns the exit code.
    pub fn report(self) -> ExitCode {
        match self {
            Failure::Usage(what) => {
                eprintln!("error: {what}\n\nFor more information, try '--help'.");
                ExitCode::from(2)
            }
            Failure::Failed(what) => {
                eprintln!("error: {what}");
                ExitCode::FAILURE
            }
            Failure::Told => ExitCode::FAILURE,
        }
    }
}

impl From<isomer_cluster::Error> for Failure {
    fn from(error: isomer_cluster::Error) -> Failure {
        Failure::failed(error)
    }
}

impl From<isomer_workload::OptionsError> for Failure {
    fn from(error: isomer_workload::OptionsError) -> Failure {
        Failure::usage(error)
    }
}
