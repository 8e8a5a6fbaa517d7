//! Objects: the bytes of archives on their way in and out.
//!
//! [`Blobs`] is a local folder or an S3-compatible bucket, with the same behaviour behind one suite of tests: objects are
//! written whole or not at all and never changed; whoever holds a signed address may do one thing with one object for a
//! short time. Correctness rests on neither: keys are random and never used twice, and what an object must be is recorded
//! in the database.
//!
//! Not for: who may have an address, what is in an object, when one is deleted.

mod key;
mod local;
mod s3;
mod signed;

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;

pub use key::{InvalidKey, ObjectKey};
pub use local::{LocalFolder, PutRefusal, Received};
pub use s3::{S3, S3Settings};
pub use signed::{PutTerms, SignedRequest, Signing};

/// How long an address to download from is good for.
pub const DOWNLOAD_LIFE: Duration = Duration::from_mins(5);
/// How long an address to upload to is good for.
pub const UPLOAD_LIFE: Duration = Duration::from_mins(15);
/// Bytes of a piece that goes out at once. S3 takes no part below 5 MiB but the last, and no more than 10,000 of them.
pub const PIECE_BYTES: usize = 8 << 20;

/// Why an object could not be had or stored.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    #[error("there is no such object")]
    Absent,
    #[error("the object store did not do it")]
    Store(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the object is not what it should be: {0}")]
    Damaged(&'static str),
    #[error("{0}")]
    Settings(String),
}

impl From<std::io::Error> for BlobError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound => Self::Absent,
            _ => Self::Store(Box::new(error)),
        }
    }
}

/// Where objects are kept.
#[derive(Debug, Clone)]
pub enum Blobs {
    Local(LocalFolder),
    S3(S3),
}

/// What there is of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub key: ObjectKey,
    pub size_bytes: u64,
}

/// An object being written. Dropped before [`Upload::finish`] it leaves nothing that has a name; what an abrupt end leaves
/// behind is named by [`Upload::trace`] and goes with [`Blobs::abort`].
#[derive(Debug)]
pub enum Upload {
    Local(local::LocalUpload),
    S3(s3::S3Upload),
}

impl Upload {
    /// What [`Blobs::abort`] needs to clean up after a process that ended in between.
    #[must_use]
    pub fn trace(&self) -> String {
        match self {
            Self::Local(upload) => upload.trace(),
            Self::S3(upload) => upload.trace(),
        }
    }

    /// Writes the next piece. Every piece but the last has [`PIECE_BYTES`].
    ///
    /// # Errors
    /// Those of the store; the upload must be given up.
    pub async fn write(&mut self, piece: Bytes) -> Result<(), BlobError> {
        match self {
            Self::Local(upload) => upload.write(piece).await,
            Self::S3(upload) => upload.write(piece).await,
        }
    }

    /// Gives the object its key.
    ///
    /// # Errors
    /// Those of the store; the object may or may not be there.
    pub async fn finish(self) -> Result<(), BlobError> {
        match self {
            Self::Local(upload) => upload.finish().await,
            Self::S3(upload) => upload.finish().await,
        }
    }

    /// Gives up, and leaves nothing.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn abort(self) -> Result<(), BlobError> {
        match self {
            Self::Local(upload) => upload.abort().await,
            Self::S3(upload) => upload.abort().await,
        }
    }
}

impl Blobs {
    /// A folder of this machine. It is made if need be, for its owner only.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn local(root: PathBuf, signing: Signing) -> Result<Self, BlobError> {
        LocalFolder::open(root, signing).map(Self::Local)
    }

    /// A bucket.
    ///
    /// # Errors
    /// When the settings make no client.
    pub fn s3(settings: &S3Settings) -> Result<Self, BlobError> {
        S3::connect(settings).map(Self::S3)
    }

    /// Begins to write an object.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn upload(&self, key: &ObjectKey) -> Result<Upload, BlobError> {
        match self {
            Self::Local(folder) => folder.upload(key).await.map(Upload::Local),
            Self::S3(bucket) => bucket.upload(key).await.map(Upload::S3),
        }
    }

    /// Removes what an upload that was neither finished nor aborted left behind. Nothing there is no error.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn abort(&self, key: &ObjectKey, trace: &str) -> Result<(), BlobError> {
        match self {
            Self::Local(folder) => folder.abort(trace).await,
            Self::S3(bucket) => bucket.abort(key, trace).await,
        }
    }

    /// The bytes of an object from `start` up to `end`.
    ///
    /// # Errors
    /// [`BlobError::Absent`], or those of the store.
    pub async fn read(&self, key: &ObjectKey, start: u64, end: u64) -> Result<Bytes, BlobError> {
        match self {
            Self::Local(folder) => folder.read(key, start, end).await,
            Self::S3(bucket) => bucket.read(key, start, end).await,
        }
    }

    /// The size of an object.
    ///
    /// # Errors
    /// [`BlobError::Absent`], or those of the store.
    pub async fn size(&self, key: &ObjectKey) -> Result<u64, BlobError> {
        match self {
            Self::Local(folder) => folder.size(key).await,
            Self::S3(bucket) => bucket.size(key).await,
        }
    }

    /// The objects below a prefix, which ends with a slash.
    pub fn list(&self, prefix: &str) -> BoxStream<'static, Result<Stored, BlobError>> {
        match self {
            Self::Local(folder) => folder.list(prefix),
            Self::S3(bucket) => bucket.list(prefix),
        }
    }

    /// Deletes an object. None there is no error.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn delete(&self, key: &ObjectKey) -> Result<(), BlobError> {
        match self {
            Self::Local(folder) => folder.delete(key).await,
            Self::S3(bucket) => bucket.delete(key).await,
        }
    }

    /// Deletes everything below a prefix, and in a folder what was left half-received there.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn delete_below(&self, prefix: &str) -> Result<u64, BlobError> {
        use futures::TryStreamExt as _;
        if let Self::Local(folder) = self {
            folder.remove_parts_below(prefix).await?;
        }
        let found: Vec<Stored> = self.list(prefix).try_collect().await?;
        for object in &found {
            self.delete(&object.key).await?;
        }
        Ok(found.len() as u64)
    }

    /// An address from which this object, and nothing else, may be downloaded for so long, as a file of this name. `now`
    /// is in seconds since 1970.
    ///
    /// # Errors
    /// When it cannot be signed.
    pub async fn sign_get(
        &self,
        key: &ObjectKey,
        file_name: &str,
        now: u64,
        life: Duration,
    ) -> Result<SignedRequest, BlobError> {
        let expires_at = now + life.as_secs();
        match self {
            Self::Local(folder) => Ok(folder.signing().get(key, file_name, expires_at)),
            Self::S3(bucket) => bucket.sign_get(key, file_name, expires_at, life).await,
        }
    }

    /// An address to which exactly these bytes may be put, as this object, for so long.
    ///
    /// # Errors
    /// When it cannot be signed.
    pub async fn sign_put(
        &self,
        key: &ObjectKey,
        terms: &PutTerms,
        now: u64,
        life: Duration,
    ) -> Result<SignedRequest, BlobError> {
        let expires_at = now + life.as_secs();
        match self {
            Self::Local(folder) => Ok(folder.signing().put(key, terms, expires_at)),
            Self::S3(bucket) => bucket.sign_put(key, terms, expires_at, life).await,
        }
    }
}
