//! The contents of files and the results of batches, in a directory or in a bucket (crate `object_store`).
//!
//! Not here: what a file is called, who owns it and how long it is kept (records of the store), and what stands in it.

mod directory;
mod error;
mod location;
mod writer;

pub use error::BlobError;
pub use location::{BlobLocation, S3Location};
pub use writer::BlobWriter;

use bytes::Bytes;
use directory::Directory;
use futures_util::stream::{BoxStream, StreamExt as _, TryStreamExt as _, try_unfold};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{GetOptions, ObjectStore, ObjectStoreExt as _, PutMode};
use std::ops::Range;
use std::sync::Arc;
use writer::PartSizes;

const KIB: u64 = 1024;
const MIB: usize = 1024 * 1024;

/// A blob that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Below the root, `files/<uuid>`.
    pub path: String,
    /// Bytes.
    pub size: u64,
}

/// The content of a blob. Each piece is fetched when it is polled for, so a slow consumer holds no connection and at most one
/// piece: 256 KiB of a directory, 1 MiB of a bucket.
pub struct BlobReader {
    /// Bytes.
    pub size: u64,
    pub stream: BoxStream<'static, Result<Bytes, BlobError>>,
}

/// The store of all blobs. Cheap to clone.
#[derive(Clone)]
pub struct Blobs {
    store: Arc<dyn ObjectStore>,
    /// Where it is one.
    directory: Option<Arc<Directory>>,
    sizes: PartSizes,
    /// The size of a piece that is read, bytes.
    piece: u64,
}

impl Blobs {
    /// Opens the store. A directory is made where it is missing; a bucket is not contacted yet. Blocks: for the start.
    pub fn open(location: &BlobLocation) -> Result<Self, BlobError> {
        match location {
            BlobLocation::Directory(path) => {
                let directory = Directory::open(path)?;
                let store = LocalFileSystem::new_with_prefix(directory.root())?
                    .with_automatic_cleanup(true)
                    // Without it a power loss leaves empty files of results that were counted.
                    .with_fsync(true);
                let sizes = PartSizes { part: MIB, in_flight: 1 };
                Ok(Self {
                    store: Arc::new(store),
                    directory: Some(Arc::new(directory)),
                    sizes,
                    piece: 256 * KIB,
                })
            }
            BlobLocation::S3(bucket) => {
                let store = PrefixStore::new(bucket.connect()?, parse(&bucket.prefix)?);
                let sizes = PartSizes { part: 5 * MIB, in_flight: 2 };
                Ok(Self { store: Arc::new(store), directory: None, sizes, piece: 1024 * KIB })
            }
        }
    }

    /// Writes a blob, in place of one that has its path.
    #[cfg(test)]
    pub async fn put(&self, path: &str, bytes: Bytes) -> Result<(), BlobError> {
        self.store.put(&parse(path)?, bytes.into()).await?;
        Ok(())
    }

    /// Writes a blob where there is none. `false`: there is one, and it stays as it is.
    pub async fn create(&self, path: &str, bytes: Bytes) -> Result<bool, BlobError> {
        match self.store.put_opts(&parse(path)?, bytes.into(), PutMode::Create.into()).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Starts to write a blob of any size.
    pub fn writer(&self, path: &str) -> Result<BlobWriter, BlobError> {
        Ok(BlobWriter::new(Arc::clone(&self.store), parse(path)?, self.sizes))
    }

    /// The content of a blob. Fails while it is read if the blob is replaced or deleted meanwhile.
    pub async fn read(&self, path: &str) -> Result<BlobReader, BlobError> {
        let location = parse(path)?;
        self.read_location(location, 0).await
    }

    /// As [`Blobs::read`], from this byte on.
    pub(crate) async fn read_from(&self, path: &str, byte: u64) -> Result<BlobReader, BlobError> {
        self.read_location(parse(path)?, byte).await
    }

    async fn read_location(&self, location: Path, byte: u64) -> Result<BlobReader, BlobError> {
        let found = self.store.head(&location).await?;
        Ok(BlobReader { size: found.size, stream: self.pieces(location, byte..found.size, found.e_tag) })
    }

    /// The content of a listed blob: one request less than `read`.
    pub(crate) async fn read_listed(&self, blob: &Blob) -> Result<BlobReader, BlobError> {
        Ok(BlobReader { size: blob.size, stream: self.pieces(parse(&blob.path)?, 0..blob.size, None) })
    }

    fn pieces(
        &self,
        path: Path,
        bytes: Range<u64>,
        e_tag: Option<String>,
    ) -> BoxStream<'static, Result<Bytes, BlobError>> {
        let Range { start, end: size } = bytes;
        let store = Arc::clone(&self.store);
        let piece = self.piece;
        let next = move |start: u64| {
            let store = Arc::clone(&store);
            let path = path.clone();
            let e_tag = e_tag.clone();
            async move {
                if start >= size {
                    return Ok(None);
                }
                let range = start..size.min(start.saturating_add(piece));
                let options =
                    GetOptions { range: Some(range.into()), if_match: e_tag, ..GetOptions::default() };
                let bytes = store.get_opts(&path, options).await?.bytes().await?;
                if bytes.is_empty() {
                    return Err(BlobError::Other(format!("{path} ends before its size, {size} bytes")));
                }
                let end = start.saturating_add(bytes.len() as u64);
                Ok(Some((bytes, end)))
            }
        };
        try_unfold(start, next).boxed()
    }

    /// The size of a blob, bytes; `None` if there is none.
    #[cfg(test)]
    pub async fn size(&self, path: &str) -> Result<Option<u64>, BlobError> {
        match self.store.head(&parse(path)?).await.map_err(BlobError::from) {
            Ok(found) => Ok(Some(found.size)),
            Err(BlobError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All blobs of a folder and the folders in it, by path.
    pub async fn list(&self, folder: &str) -> Result<Vec<Blob>, BlobError> {
        let found = self.store.list(Some(&parse(folder)?));
        let mut blobs: Vec<Blob> = found
            .map_ok(|found| Blob { path: found.location.to_string(), size: found.size })
            .try_collect()
            .await?;
        blobs.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(blobs)
    }

    /// Deletes a blob; that there is none is no error.
    pub async fn delete(&self, path: &str) -> Result<(), BlobError> {
        match self.store.delete(&parse(path)?).await.map_err(BlobError::from) {
            Ok(()) => self.sync(path).await,
            Err(BlobError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes all blobs of a folder and the folders in it.
    pub(crate) async fn delete_all(&self, folder: &str) -> Result<(), BlobError> {
        let found = self.store.list(Some(&parse(folder)?)).map_ok(|found| found.location);
        let mut deleted = self.store.delete_stream(found.boxed());
        while let Some(result) = deleted.next().await {
            match result.map_err(BlobError::from) {
                Ok(_) | Err(BlobError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        // A name below the folder: the folder itself has changed, or one above it.
        self.sync(&format!("{folder}/x")).await
    }

    /// Removes what killed processes left of blobs that they were writing and that nobody has written to for an hour. A
    /// bucket has a rule of its own for incomplete uploads.
    pub(crate) async fn remove_abandoned(&self) -> Result<(), BlobError> {
        self.in_directory(|directory| directory.remove_abandoned()).await
    }

    async fn sync(&self, path: &str) -> Result<(), BlobError> {
        let path = path.to_owned();
        self.in_directory(move |directory| directory.sync(&path)).await
    }

    async fn in_directory<W>(&self, work: W) -> Result<(), BlobError>
    where
        W: FnOnce(&Directory) -> Result<(), BlobError> + Send + 'static,
    {
        let Some(directory) = self.directory.clone() else { return Ok(()) };
        let done = tokio::task::spawn_blocking(move || work(&directory)).await;
        done.map_err(|error| BlobError::Other(error.to_string()))?
    }
}

fn parse(path: &str) -> Result<Path, BlobError> {
    Path::parse(path).map_err(|error| BlobError::Other(error.to_string()))
}

#[cfg(test)]
mod bucket_tests;
#[cfg(test)]
mod s3_server;
#[cfg(test)]
mod tests;
