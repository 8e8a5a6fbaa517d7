//! Files that appear whole or not at all, and that only their owner reads.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Where the bytes go. A file is written beside its final place and taken away again unless it was
/// finished; a device or a pipe is written as it is.
pub(crate) struct Target {
    pub(crate) file: File,
    /// The name it has until it is finished, and the one it gets then.
    rename: Option<(PathBuf, PathBuf)>,
}

impl Target {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // Renaming must hit the file behind a link, and never replace `/dev/null`.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            let file = File::options().write(true).open(&path)?;
            return Ok(Self { file, rename: None });
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.partial", std::process::id()));
        let partial = path.with_file_name(name);
        let file = private_file(&partial)?;
        Ok(Self {
            file,
            rename: Some((partial, path)),
        })
    }

    /// Gives the file its name.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        if let Some((partial, path)) = self.rename.take() {
            self.file.sync_all()?;
            std::fs::rename(&partial, path).inspect_err(|_| {
                _ = std::fs::remove_file(&partial);
            })?;
        }
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some((partial, _)) = &self.rename {
            // What cannot be removed is named `.partial` and tells its own story.
            _ = std::fs::remove_file(partial);
        }
    }
}

/// A new file that nobody but its owner reads: a state holds secrets, and so does a token.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
