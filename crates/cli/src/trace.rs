//! The trace to replay: the embedded one, or a file.
//!
//! The embedded trace (`data/twitter_cache_1m.csv.zst`, CC BY 4.0, see `data/README.md`) takes
//! 2.2 MB. It lets `isomer demo` run in any folder and on any machine.

use crate::failure::Failure;
use isomer_workload::Trace;
use ruzstd::decoding::StreamingDecoder;
use std::path::Path;
use std::sync::Arc;

const EMBEDDED: &[u8] = include_bytes!("../../../data/twitter_cache_1m.csv.zst");

/// The name of the embedded trace.
pub const EMBEDDED_NAME: &str = "twitter_cache_1m";

/// A trace, and its name.
#[derive(Clone)]
pub struct Named {
    pub name: String,
    pub trace: Arc<Trace>,
}

/// Reads the trace of a file, or the embedded one.
pub fn read(file: Option<&Path>) -> Result<Named, Failure> {
    let (name, trace) = match file {
        Some(path) => (path.display().to_string(), Trace::open(path)),
        None => {
            let text = StreamingDecoder::new(EMBEDDED).map_err(Failure::failed)?;
            (EMBEDDED_NAME.to_owned(), Trace::read(text))
        }
    };
    Ok(Named { name, trace: Arc::new(trace.map_err(Failure::failed)?) })
}
