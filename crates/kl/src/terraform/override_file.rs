//! A backend block for those who cannot have one: an override file beside the configuration, for as long as kl works.
//!
//! Terraform lets the last override file have its way with the backend, whatever type the configuration names. While the
//! file is there the user's own Terraform does not work in the directory, so it is only written on request, and goes on
//! every way out. After a way out that kl cannot take (a power cut), the next kl in the directory removes it.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::failure::{Failure, Result};

/// Sorts behind every name that people give.
const NAME: &str = "zzzz_kilolock_override.tf";
const TEXT: &str =
    "# Written by kl for one run, and removed with it.\nterraform {\n  backend \"http\" {}\n}\n";
/// How often another kl is waited for that removes the file this moment.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// The file; the last kl that has it removes it.
#[derive(Debug)]
pub(crate) struct OverrideFile {
    path: PathBuf,
    /// Locked shared: several runs in one directory do not take it from each other.
    file: File,
}

impl OverrideFile {
    /// Writes the file, or shares the one of another kl that is at work here.
    ///
    /// # Errors
    /// A file of that name that is not kl's, and I/O failures.
    pub(crate) fn write(directory: &Path) -> Result<Self> {
        let path = directory.join(NAME);
        for _ in 0..TRIES {
            let mut file = open(&path, true)
                .map_err(|error| Failure::from(error).context(format!("could not write {NAME}")))?;
            if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() && is_at(&file, &path) {
                fill(&mut file)?;
                return Ok(Self { path, file });
            }
            std::thread::sleep(PAUSE);
        }
        Err(Failure::failed(format!(
            "{NAME} is in use by somebody else"
        )))
    }

    /// Removes what a kl left here that did not get to its end. Anything else stays.
    pub(crate) fn tidy(directory: &Path) {
        let path = directory.join(NAME);
        if let Ok(mut file) = open(&path, false)
            && is_ours(&mut file).unwrap_or(false)
        {
            remove_unless_shared(&file, &path);
        }
    }
}

impl Drop for OverrideFile {
    fn drop(&mut self) {
        remove_unless_shared(&self.file, &self.path);
    }
}

fn open(path: &Path, create: bool) -> io::Result<File> {
    File::options()
        .read(true)
        .write(create)
        .create(create)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
}

/// Whether the file is still the one of this name: another kl may have removed it since it was opened.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(opened), Ok(named)) => opened.ino() == named.ino() && opened.dev() == named.dev(),
        _ => false,
    }
}

fn fill(file: &mut File) -> Result<()> {
    if file.metadata()?.len() == 0 {
        return Ok(file.write_all(TEXT.as_bytes())?);
    }
    match is_ours(file)? {
        true => Ok(()),
        false => Err(
            Failure::usage(format!("{NAME} is a file of yours, and kl needs that name"))
                .hint("rename it, or leave out --override-backend"),
        ),
    }
}

fn is_ours(file: &mut File) -> io::Result<bool> {
    let mut text = Vec::new();
    file.take(TEXT.len() as u64 + 1).read_to_end(&mut text)?;
    Ok(text == TEXT.as_bytes())
}

/// Whoever is last gets the lock alone.
fn remove_unless_shared(file: &File, path: &Path) {
    if flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() && is_at(file, path) {
        // What cannot be removed now, the next kl removes.
        _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_several_removes_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        let first = OverrideFile::write(directory.path()).unwrap();
        let second = OverrideFile::write(directory.path()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), TEXT);
        OverrideFile::tidy(directory.path());
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn what_was_left_is_removed_and_what_is_the_users_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        fs::write(&path, TEXT).unwrap();
        OverrideFile::tidy(directory.path());
        assert!(!path.exists());
        fs::write(&path, "# mine\n").unwrap();
        OverrideFile::tidy(directory.path());
        assert!(OverrideFile::write(directory.path()).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "# mine\n");
    }
}
