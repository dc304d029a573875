//! An object store with blocking calls: each returns when the store has answered.
//!
//! The client of S3 runs on `tokio`. Its event loop runs on the calling thread; no other part of
//! this program is asynchronous in that sense (see decision record 0005).

use futures_util::{StreamExt, TryStreamExt, stream};
use isomer_log::CheckpointError;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

/// See the [module documentation](self).
pub(crate) struct Store {
    objects: Arc<dyn ObjectStore>,
    runtime: Runtime,
    place: String,
    /// The folder of the objects, if they are files.
    folder: Option<PathBuf>,
}

impl Store {
    /// A store that messages call `place`.
    ///
    /// # Errors
    /// A message, if the system has no handles left.
    pub(crate) fn new(
        objects: Arc<dyn ObjectStore>,
        place: &str,
        folder: Option<PathBuf>,
    ) -> Result<Store, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("{place}: {error}"))?;
        Ok(Store { objects, runtime, place: place.trim_end_matches('/').to_owned(), folder })
    }

    /// Its name in messages.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// The name of an object in messages.
    pub(crate) fn name(&self, at: &str) -> String {
        format!("{}/{at}", self.place)
    }

    /// Writes an object, atomically.
    pub(crate) fn put(&self, at: &str, bytes: Vec<u8>) -> Result<(), CheckpointError> {
        let (path, bytes) = (Path::from(at), bytes.into());
        let put = self.runtime.block_on(self.objects.put(&path, bytes));
        put.map(drop).map_err(|error| self.refused("write", at, &error))
    }

    /// Reads an object.
    pub(crate) fn get(&self, at: &str) -> Result<Vec<u8>, CheckpointError> {
        let path = Path::from(at);
        let got = self.runtime.block_on(async { self.objects.get(&path).await?.bytes().await });
        got.map(Into::into).map_err(|error| self.refused("read", at, &error))
    }

    /// True if an object exists.
    pub(crate) fn has(&self, at: &str) -> Result<bool, CheckpointError> {
        match self.runtime.block_on(self.objects.head(&Path::from(at))) {
            Ok(_) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.refused("look at", at, &error)),
        }
    }

    /// All objects below a name, by the rest of their names, and their lengths.
    pub(crate) fn list(&self, under: &str) -> Result<Vec<(String, u64)>, CheckpointError> {
        let path = Path::from(under);
        let found = self.runtime.block_on(self.objects.list(Some(&path)).try_collect::<Vec<_>>());
        let found = found.map_err(|error| self.refused("list", under, &error))?;
        let below = |location: &Path| Some(location.as_ref().strip_prefix(under)?[1..].to_owned());
        Ok(found.iter().filter_map(|meta| Some((below(&meta.location)?, meta.size))).collect())
    }

    /// Removes objects, in any order. Missing ones are no error.
    pub(crate) fn remove(&self, objects: Vec<String>) -> Result<(), CheckpointError> {
        let at = objects.first().cloned().unwrap_or_default();
        let paths = stream::iter(objects).map(|at| Ok(Path::from(at))).boxed();
        let removed = self.runtime.block_on(self.objects.delete_stream(paths).collect::<Vec<_>>());
        let mut failed = removed.into_iter().filter_map(Result::err);
        let failed = failed.find(|error| !matches!(error, Error::NotFound { .. }));
        failed.map_or(Ok(()), |error| Err(self.refused("remove", &at, &error)))
    }

    /// If objects are files, removes the folder that held them, with files that a killed process
    /// left.
    pub(crate) fn remove_folder(&self, under: &str) {
        if let Some(folder) = &self.folder {
            // If the folder cannot be removed, it is empty, or a later call retries.
            let _ = std::fs::remove_dir_all(folder.join(under));
        }
    }

    fn refused(&self, action: &'static str, at: &str, error: &Error) -> CheckpointError {
        CheckpointError::Store { action, object: self.name(at), what: error.to_string() }
    }
}
