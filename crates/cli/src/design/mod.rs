//! `isomer design`: the design of a database in a folder, shown, changed and checked.
//!
//! Each command opens the database, which brings what was under way when it stopped to its end, and
//! keeps other processes out meanwhile. Nothing of it is changed but by `apply`.

mod apply;
mod check;
mod show;

use crate::failure::Failure;
use isomer_cluster::{Database, Options};
use isomer_strategy::Static;
use std::path::{Path, PathBuf};

/// Bytes; `None` is no limit.
type SiteMemory = Option<usize>;

/// Shows, changes and checks the design of a database in a folder
#[derive(clap::Subcommand, Debug)]
pub(crate) enum DesignCommand {
    Show(ShowArgs),
    Apply(ApplyArgs),
    Check(CheckArgs),
}

/// Prints which partitions there are, and which sites hold them
///
/// Neighbouring partitions of one placement are one line, unless --full asks for the text form, which
/// has every partition and can be read again.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer design show shop
  isomer design show shop --full > shop.design")]
pub(crate) struct ShowArgs {
    /// The folder of the database
    folder: PathBuf,
    /// Prints every column and every partition
    #[arg(long, conflicts_with = "json")]
    full: bool,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
}

/// Changes the design: split, merge, add_replica, remove_replica, remaster, add_site, remove_site
///
/// All changes are read and tried on a copy of the design first; if one of them is not possible, none
/// is made.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer design apply shop 'split accounts at 500'
  isomer design apply shop 'add_replica accounts[500] s2' 'remaster accounts[500] s2'
  isomer design apply shop --dry-run 'merge accounts at 500'
  isomer design apply shop --plan shop.plan        a plan of `isomer advise --plan`")]
pub(crate) struct ApplyArgs {
    /// The folder of the database
    folder: PathBuf,
    /// What to change, in this order; each in quotes
    #[arg(required_unless_present = "plan", conflicts_with = "plan", value_name = "CHANGE")]
    changes: Vec<String>,
    /// A file with one change a line, and reasons behind `#`
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Shows what the changes would do, and makes none
    #[arg(long)]
    dry_run: bool,
    /// What the rows of each site may take in memory, as 512MB or 4GB; a site that has no room for it gets no
    /// replica [default: as much as there is]
    #[arg(long, value_name = "SIZE", value_parser = isomer_server::read_site_memory)]
    site_memory: Option<SiteMemory>,
    /// Prints one line of JSON for each change
    #[arg(long)]
    json: bool,
}

/// Checks that the design keeps its invariants, and that all copies of a partition agree
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:
  isomer design check shop")]
pub(crate) struct CheckArgs {
    /// The folder of the database
    folder: PathBuf,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs a command on a design.
///
/// # Errors
/// [`Failure`]: the folder is no database, or in use, or damaged; a change is not possible; a check
/// fails.
pub(crate) fn run(command: &DesignCommand) -> Result<(), Failure> {
    match command {
        DesignCommand::Show(args) => show::run(args),
        DesignCommand::Apply(args) => apply::run(args),
        DesignCommand::Check(args) => check::run(args),
    }
}

/// Opens a database that exists.
fn open(folder: &Path) -> Result<Database, Failure> {
    // The library would make a new one of a folder that is missing or empty.
    let entries = std::fs::read_dir(folder)
        .map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))?;
    if entries.count() == 0 {
        let folder = folder.display();
        return Err(Failure::failed(format!("{folder} is empty; give the folder of a database")));
    }
    let db = Database::open(Options::in_folder(folder, 1).strategy(Static))?;
    db.notes().iter().for_each(|note| eprintln!("note: {note}"));
    Ok(db)
}
