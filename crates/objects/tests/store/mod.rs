//! An object store in memory that fails on demand and measures its requests.

#![allow(dead_code, reason = "each test uses a part")]

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    inner: InMemory,
    /// After `good` more requests, `bad` requests fail.
    good: AtomicUsize,
    bad: AtomicUsize,
    is_read_only: AtomicBool,
    /// The length of the longest object written.
    longest: AtomicUsize,
}

impl Trouble {
    /// After `after` more requests, `bad` requests fail.
    pub(crate) fn fails(&self, after: usize, bad: usize) {
        self.good.store(after, Ordering::SeqCst);
        self.bad.store(bad, Ordering::SeqCst);
    }

    /// Ends all failures.
    pub(crate) fn heals(&self) {
        self.fails(0, 0);
    }

    /// Sets whether writes are refused.
    pub(crate) fn read_only(&self, is: bool) {
        self.is_read_only.store(is, Ordering::SeqCst);
    }

    pub(crate) fn longest(&self) -> usize {
        self.longest.load(Ordering::SeqCst)
    }

    fn ask(&self) -> Result<()> {
        let one_less = |left: usize| left.checked_sub(1);
        let (good, bad) = (&self.good, &self.bad);
        let is_good = good.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok();
        if !is_good && bad.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            return Err(Error::Generic { store: "Trouble", source: "it was told to fail".into() });
        }
        Ok(())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trouble")
    }
}

#[async_trait]
impl ObjectStore for Trouble {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        self.ask()?;
        if self.is_read_only.load(Ordering::SeqCst) {
            let (path, source) = (location.to_string(), "it is read only".into());
            return Err(Error::PermissionDenied { path, source });
        }
        self.longest.fetch_max(payload.content_length(), Ordering::SeqCst);
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.ask()?;
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        match self.ask() {
            Ok(()) => self.inner.delete_stream(locations),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.ask() {
            Ok(()) => self.inner.list(prefix),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.ask()?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.ask()?;
        self.inner.copy_opts(from, to, options).await
    }
}
