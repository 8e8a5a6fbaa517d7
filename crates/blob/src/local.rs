//! Objects in a folder of this machine, for deployments without an object store.
//!
//! A key is a path below `objects/`; what is being written is in `parts/`, under a name that tells its key, and gets the key
//! by a rename. What is at rest here is plain: the disk's own encryption is the operator's, as a bucket's is. Files are their owner's only.

use std::io::{self, SeekFrom};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use sha2::{Digest as _, Sha256};
use tokio::fs::{self, File};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};

use crate::{BlobError, ObjectKey, PutTerms, Signing, Stored};

/// A folder.
#[derive(Debug, Clone)]
pub struct LocalFolder {
    root: PathBuf,
    signing: Signing,
}

/// How an upload through a signed address ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    Stored,
    /// The same bytes were there already.
    Again,
}

/// Why an upload through a signed address was not taken.
#[derive(Debug, thiserror::Error)]
pub enum PutRefusal {
    #[error("the body is not of the size that was signed")]
    Size,
    #[error("the body is not the one that was signed")]
    Checksum,
    #[error("the body broke off")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error(transparent)]
    Store(#[from] BlobError),
}

impl LocalFolder {
    pub(crate) fn open(root: PathBuf, signing: Signing) -> Result<Self, BlobError> {
        for directory in ["objects", "parts"] {
            private_directory(&root.join(directory))?;
        }
        Ok(Self { root, signing })
    }

    /// What signs its addresses.
    #[must_use]
    pub const fn signing(&self) -> &Signing {
        &self.signing
    }

    fn path(&self, key: &ObjectKey) -> PathBuf {
        self.root.join("objects").join(key.as_str())
    }

    pub(crate) async fn upload(&self, key: &ObjectKey) -> Result<LocalUpload, BlobError> {
        let trace = format!(
            "{}.{:032x}",
            part_name(key.as_str()),
            rand::random::<u128>()
        );
        let part = self.root.join("parts").join(&trace);
        let file = private_file(&part).await?;
        Ok(LocalUpload {
            file,
            part,
            target: self.path(key),
            trace,
        })
    }

    pub(crate) async fn abort(&self, trace: &str) -> Result<(), BlobError> {
        // A name in `parts/` and no way out of it.
        if trace.split('.').all(is_segment) {
            remove(&self.root.join("parts").join(trace)).await?;
        }
        Ok(())
    }

    pub(crate) async fn read(
        &self,
        key: &ObjectKey,
        start: u64,
        end: u64,
    ) -> Result<Bytes, BlobError> {
        let mut file = File::open(self.path(key)).await?;
        file.seek(SeekFrom::Start(start)).await?;
        let wanted = end.saturating_sub(start);
        let mut bytes = Vec::with_capacity(usize::try_from(wanted).unwrap_or_default());
        file.take(wanted).read_to_end(&mut bytes).await?;
        if bytes.len() as u64 != wanted {
            return Err(BlobError::Damaged("it is shorter than it was"));
        }
        Ok(bytes.into())
    }

    pub(crate) async fn size(&self, key: &ObjectKey) -> Result<u64, BlobError> {
        Ok(fs::metadata(self.path(key)).await?.len())
    }

    pub(crate) fn list(&self, prefix: &str) -> BoxStream<'static, Result<Stored, BlobError>> {
        let (root, prefix) = (self.root.join("objects"), prefix.to_owned());
        stream::once(async move {
            let listed = tokio::task::spawn_blocking(move || {
                let mut found = Vec::new();
                walk(&root.join(&prefix), &prefix, &mut found)?;
                Ok::<_, io::Error>(found)
            });
            match listed.await {
                Ok(Ok(found)) => stream::iter(found).map(Ok).boxed(),
                Ok(Err(error)) => stream::iter([Err(error.into())]).boxed(),
                Err(error) => stream::iter([Err(BlobError::Store(Box::new(error)))]).boxed(),
            }
        })
        .flatten()
        .boxed()
    }

    pub(crate) async fn delete(&self, key: &ObjectKey) -> Result<(), BlobError> {
        let path = self.path(key);
        remove(&path).await?;
        // Folders that are empty now go too; one that is not, or not any more, stays.
        let mut folder = path.parent();
        while let Some(empty) = folder
            && empty != self.root.join("objects")
            && fs::remove_dir(empty).await.is_ok()
        {
            folder = empty.parent();
        }
        Ok(())
    }

    /// Removes what is being written below a prefix, or was when its writer died: whoever is still at it fails.
    pub(crate) async fn remove_parts_below(&self, prefix: &str) -> Result<(), BlobError> {
        let start = part_name(prefix);
        let mut entries = fs::read_dir(self.root.join("parts")).await?;
        while let Some(entry) = entries.next_entry().await? {
            if entry.file_name().to_string_lossy().starts_with(&start) {
                remove(&entry.path()).await?;
            }
        }
        Ok(())
    }

    /// Takes the body of an upload through a signed address.
    ///
    /// # Errors
    /// When the body is not the one that was signed for. Nothing is stored then.
    pub async fn receive<E>(
        &self,
        key: &ObjectKey,
        terms: &PutTerms,
        mut body: impl futures::Stream<Item = Result<Bytes, E>> + Unpin,
    ) -> Result<Received, PutRefusal>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let mut upload = self.upload(key).await?;
        let taken = take(&mut upload, terms, &mut body).await;
        if let Err(refusal) = taken {
            upload.abort().await?;
            return Err(refusal);
        }
        if fs::try_exists(&upload.target)
            .await
            .map_err(BlobError::from)?
        {
            let same = self.holds(key, terms).await?;
            upload.abort().await?;
            // An object is never overwritten.
            return if same {
                Ok(Received::Again)
            } else {
                Err(PutRefusal::Checksum)
            };
        }
        upload.finish().await?;
        Ok(Received::Stored)
    }

    async fn holds(&self, key: &ObjectKey, terms: &PutTerms) -> Result<bool, BlobError> {
        let size = self.size(key).await?;
        let bytes = self.read(key, 0, size).await?;
        Ok(size == terms.size_bytes && Sha256::digest(&bytes).as_slice() == terms.sha256)
    }
}

async fn take<E>(
    upload: &mut LocalUpload,
    terms: &PutTerms,
    body: &mut (impl futures::Stream<Item = Result<Bytes, E>> + Unpin),
) -> Result<(), PutRefusal>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let (mut size, mut hash) = (0, Sha256::new());
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(|error| PutRefusal::Broken(Box::new(error)))?;
        size += piece.len() as u64;
        if size > terms.size_bytes {
            return Err(PutRefusal::Size);
        }
        hash.update(&piece);
        upload.write(piece).await?;
    }
    if size != terms.size_bytes {
        return Err(PutRefusal::Size);
    }
    if hash.finalize().as_slice() != terms.sha256 {
        return Err(PutRefusal::Checksum);
    }
    Ok(())
}

/// A key or a prefix as one name; no key has a dot.
fn part_name(key: &str) -> String {
    key.replace('/', ".")
}

fn is_segment(text: &str) -> bool {
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    !text.is_empty() && text.bytes().all(plain)
}

/// A file being written.
#[derive(Debug)]
pub struct LocalUpload {
    file: File,
    part: PathBuf,
    target: PathBuf,
    trace: String,
}

impl LocalUpload {
    pub(crate) fn trace(&self) -> String {
        self.trace.clone()
    }

    pub(crate) async fn write(&mut self, piece: Bytes) -> Result<(), BlobError> {
        Ok(self.file.write_all(&piece).await?)
    }

    pub(crate) async fn finish(mut self) -> Result<(), BlobError> {
        let placed = self.place().await;
        if placed.is_err() {
            // On a full disk above all, what is not there should not take its room. The first error is the one to tell.
            _ = remove(&self.part).await;
        }
        placed
    }

    async fn place(&mut self) -> Result<(), BlobError> {
        // A write that failed is heard of here at the latest.
        self.file.flush().await?;
        self.file.sync_all().await?;
        if let Some(folder) = self.target.parent() {
            private_directory(folder)?;
        }
        Ok(fs::rename(&self.part, &self.target).await?)
    }

    pub(crate) async fn abort(self) -> Result<(), BlobError> {
        remove(&self.part).await
    }
}

async fn remove(path: &Path) -> Result<(), BlobError> {
    match fs::remove_file(path).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn walk(folder: &Path, prefix: &str, found: &mut Vec<Stored>) -> io::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            walk(&entry.path(), &format!("{name}/"), found)?;
        } else if let Ok(key) = name.parse() {
            let size_bytes = metadata.len();
            found.push(Stored { key, size_bytes });
        }
    }
    Ok(())
}

fn private_directory(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

async fn private_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    options.mode(0o600);
    options.open(path).await
}
