//! Writes one blob piece by piece; it appears whole, or not at all.
//!
//! Memory: one part that is filled and the parts in flight, 15 MiB for a bucket and 2 MiB for a directory.

use super::error::BlobError;
use bytes::BytesMut;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt as _, WriteMultipart};
use std::sync::Arc;

/// How much is copied before the limit of parts in flight is checked again, bytes.
const STEP: usize = 256 * 1024;

/// The sizes that a kind of storage is written with.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartSizes {
    /// One part, bytes. S3 takes no smaller ones than 5 MiB, and at most 10,000 of them.
    pub(super) part: usize,
    /// Parts in flight.
    pub(super) in_flight: usize,
}

/// Writes one blob. Nothing is visible before `finish`; dropped before, it leaves nothing.
pub struct BlobWriter {
    store: Arc<dyn ObjectStore>,
    path: Path,
    sizes: PartSizes,
    /// What was written, as long as it fits into one part.
    first: BytesMut,
    /// Once it does not.
    upload: Option<WriteMultipart>,
    written: u64,
    failed: bool,
}

impl BlobWriter {
    pub(super) fn new(store: Arc<dyn ObjectStore>, path: Path, sizes: PartSizes) -> Self {
        Self { store, path, sizes, first: BytesMut::new(), upload: None, written: 0, failed: false }
    }

    /// Adds bytes. Waits while as many parts as allowed are in flight. After an error only `abort` is of use.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        let result = self.add(bytes).await;
        self.failed |= result.is_err();
        self.written = self.written.saturating_add(bytes.len() as u64);
        result
    }

    async fn add(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        if self.upload.is_none() {
            if self.first.len() + bytes.len() <= self.sizes.part {
                self.first.extend_from_slice(bytes);
                return Ok(());
            }
            let started = self.store.put_multipart(&self.path).await?;
            let first = std::mem::take(&mut self.first);
            self.upload.insert(self.multipart(started)).write(&first);
        }
        let Some(upload) = &mut self.upload else { return Ok(()) };
        for step in bytes.chunks(STEP) {
            upload.wait_for_capacity(self.sizes.in_flight).await?;
            upload.write(step);
        }
        upload.wait_for_capacity(self.sizes.in_flight).await?;
        Ok(())
    }

    fn multipart(&self, started: Box<dyn MultipartUpload>) -> WriteMultipart {
        WriteMultipart::new_with_chunk_size(started, self.sizes.part)
    }

    /// Makes the blob visible, in place of one that has its path, and returns its size in bytes.
    pub async fn finish(mut self) -> Result<u64, BlobError> {
        if self.failed {
            let text = format!("{} cannot be finished: a write to it has failed", self.path);
            return Err(BlobError::Other(text));
        }
        match self.upload.take() {
            Some(upload) => upload.finish().await?,
            None => self.store.put(&self.path, std::mem::take(&mut self.first).freeze().into()).await?,
        };
        Ok(self.written)
    }

    /// Removes what was written so far.
    pub async fn abort(mut self) {
        if let Some(upload) = self.upload.take() {
            // A bucket keeps parts that it cannot delete now until its rule for incomplete uploads does.
            let _ = upload.abort().await;
        }
    }
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        let Some(upload) = self.upload.take() else { return };
        // Without a runtime the staged file goes with `upload`; a bucket has a rule for incomplete uploads.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(upload.abort());
        }
    }
}
