//! An archive file that was verified, and what may be asked of it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use archive::{ArchiveError, OriginRule, Policy, PublicKey, Verified, verify};

use crate::failure::{Failure, Result};
use crate::output::Printer;
use crate::output::progress::Progress;

/// What may be spent on an archive, and whose it must be.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    pub(crate) memory_bytes: u64,
    /// Keys of which one must have signed it; empty: any origin will do.
    pub(crate) keys: Vec<PublicKey>,
}

impl Limits {
    pub(crate) fn memory_mib(mib: u64) -> Self {
        Self {
            memory_bytes: mib.saturating_mul(1 << 20),
            keys: Vec::new(),
        }
    }

    fn policy(&self) -> Policy<'_> {
        // What the file declares of itself bounds the reading; a limit beside it would be a guess.
        let mut policy = if self.keys.is_empty() {
            Policy::any_origin(u64::MAX)
        } else {
            Policy {
                origin: OriginRule::Trusted,
                ..Policy::trusting(&self.keys, u64::MAX)
            }
        };
        policy.memory_bytes = self.memory_bytes;
        policy
    }
}

/// A sound archive.
#[derive(Clone)]
pub(crate) struct ArchiveFile {
    pub(crate) path: PathBuf,
    pub(crate) verified: Arc<Verified>,
    limits: Limits,
}

impl ArchiveFile {
    /// Reads the whole file and checks everything.
    pub(crate) async fn open(path: &Path, limits: Limits, printer: Printer) -> Result<Self> {
        let owned = path.to_owned();
        let verified = blocking({
            let limits = limits.clone();
            let (path, progress) = (owned.clone(), progress(path, "verifying", printer));
            move || verify(counted(&path, progress)?, &limits.policy())
        })
        .await
        .map_err(|error| unusable(error, path))?;
        Ok(Self {
            path: owned,
            verified: Arc::new(verified),
            limits,
        })
    }

    /// Reads it once more, away from the thread that draws.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        what: &'static str,
        printer: Printer,
        read: impl FnOnce(Counted, &Verified, &Policy<'_>) -> Result<T, ArchiveError> + Send + 'static,
    ) -> Result<T> {
        let this = self.clone();
        let progress = progress(&self.path, what, printer);
        blocking(move || {
            let file = counted(&this.path, progress)?;
            read(file, &this.verified, &this.limits.policy())
        })
        .await
        .map_err(|error| unusable(error, &self.path))
    }

    /// The version that a number, a tag or `head` names.
    pub(crate) fn version(&self, text: &str) -> Result<u64> {
        let verified = &self.verified;
        let found = match text {
            "head" => Some(verified.info.versions.last),
            _ => match text.parse() {
                Ok(seq) => verified
                    .versions
                    .iter()
                    .any(|entry| entry.meta.seq == seq)
                    .then_some(seq),
                Err(_) => verified
                    .tags
                    .iter()
                    .find(|tag| tag.name == text)
                    .map(|tag| tag.seq),
            },
        };
        found.ok_or_else(|| {
            Failure::usage(format!("{} holds no version {text}", self.path.display()))
                .hint(format!("run `kl archive show {}`", self.path.display()))
        })
    }
}

/// Runs blocking work; a panic in it is carried on.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

fn progress(path: &Path, what: &'static str, printer: Printer) -> Progress {
    let size = path.metadata().ok().map(|found| found.len());
    Progress::transfer(printer, what, size)
}

/// A file that tells how much of it has been read.
pub(crate) struct Counted {
    file: File,
    progress: Progress,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.progress.advance(read);
        Ok(read)
    }
}

fn counted(path: &Path, progress: Progress) -> Result<Counted, ArchiveError> {
    let file = File::open(path).map_err(ArchiveError::Read)?;
    Ok(Counted { file, progress })
}

/// A key as it is given on the command line.
pub(crate) fn readable(key: &str) -> Result<PublicKey> {
    PublicKey::from_base64(key.trim()).ok_or_else(|| {
        Failure::usage(format!("`{key}` is no public key"))
            .hint("an Ed25519 public key is 32 bytes in base64, 44 characters")
    })
}

/// Says which file, which entry and which rule.
fn unusable(error: ArchiveError, path: &Path) -> Failure {
    let what = match &error {
        ArchiveError::Refused(refusal) => {
            let code = refusal.rule.code();
            return Failure::new(crate::failure::Kind::Failed, anyhow::Error::new(error))
                .context(format!("{} is refused ({code})", path.display()));
        }
        ArchiveError::Write(_) => "could not extract from",
        ArchiveError::Read(_) | ArchiveError::NoSuchVersion { .. } | ArchiveError::Stopped => {
            "could not read"
        }
    };
    Failure::from(anyhow::Error::new(error)).context(format!("{what} {}", path.display()))
}
