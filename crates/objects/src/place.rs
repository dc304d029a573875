//! `file:///FOLDER` and `s3://BUCKET/PREFIX` as stores.

use crate::store::Store;
use object_store::local::LocalFileSystem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens the store at an address. A folder must exist, because a missing one may be on a disk that
/// is not mounted.
///
/// # Errors
/// A message that says what is wrong with `url` and how to mend it.
pub(crate) fn open(url: &str) -> Result<Store, String> {
    let place = url.split_once("://").map(|(kind, place)| (kind, place.trim_end_matches('/')));
    match place {
        Some(("file", path)) => folder(url, Path::new(path)),
        Some(("s3", place)) => {
            let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
            if bucket.is_empty() {
                return Err(format!("`{url}` names no bucket, as s3://bucket/shop does"));
            }
            s3(url, bucket, prefix)
        }
        _ => Err(format!(
            "`{url}` is no place for checkpoints: they go to a folder that all machines reach (file:///shared/shop), or \
             to S3 (s3://bucket/shop)"
        )),
    }
}

fn folder(url: &str, path: &Path) -> Result<Store, String> {
    if !path.is_absolute() {
        return Err(format!(
            "`{url}` is no folder, as file:///shared/shop is: three slashes, and the whole path"
        ));
    }
    if !path.is_dir() {
        return Err(format!(
            "there is no folder {}: mount what all machines reach, or make it",
            path.display()
        ));
    }
    let files =
        LocalFileSystem::new_with_prefix(path).map_err(|error| format!("{url}: {error}"))?;
    Store::new(Arc::new(files.with_fsync(true)), url, Some(PathBuf::from(path)))
}

#[cfg(feature = "s3")]
fn s3(url: &str, bucket: &str, prefix: &str) -> Result<Store, String> {
    use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
    use object_store::prefix::PrefixStore;
    use object_store::{ClientConfigKey, RetryConfig};
    use std::time::Duration;

    // Few retries: the site attempts another checkpoint anyway, and this thread serves other sites
    // too.
    let retry = RetryConfig {
        max_retries: 3,
        retry_timeout: Duration::from_secs(20),
        ..RetryConfig::default()
    };
    // Fails if the program has installed a provider already, which then stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let timeout = AmazonS3ConfigKey::Client(ClientConfigKey::Timeout);
    // Settings from the environment stay, such as `AWS_ALLOW_HTTP`.
    let builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
    let opened = builder.with_retry(retry).with_config(timeout, "20 seconds").build();
    let objects = opened.map_err(|error| format!("{url}: {error}"))?;
    let prefix =
        object_store::path::Path::parse(prefix).map_err(|error| format!("{url}: {error}"))?;
    Store::new(Arc::new(PrefixStore::new(objects, prefix)), url, None)
}

#[cfg(not(feature = "s3"))]
fn s3(url: &str, _: &str, _: &str) -> Result<Store, String> {
    Err(format!("{url}: this program was built without S3; build it with --features s3"))
}
