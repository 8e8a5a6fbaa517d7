//! Private data directories that nobody took away: of a kl that was killed, or left for another tool on purpose.
//!
//! Each directory has a file `lock`, locked by the kl that made it and by every program it started, for they inherit the
//! open file. So the lock is free when the last of them is gone, and not before: a Terraform that outlives its kl keeps its
//! directory. One that was left on purpose holds the id of its run, and goes when that run is ended.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use protocol::RunId;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::{FdFlags, fcntl_setfd};

/// How the name of each begins.
pub(super) const PREFIX: &str = "kl-run-";
const LOCK: &str = "lock";
/// Holds the id of the run that a directory was left for.
const LEFT: &str = "left";

/// Marks a directory as in use for as long as the file, or a copy that a child inherited, is open.
pub(super) fn claim(directory: &Path) -> io::Result<File> {
    // It gets its name when it is locked: one of that name that is not locked belongs to nobody.
    let unnamed = directory.join("lock.new");
    let file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&unnamed)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    fcntl_setfd(&file, FdFlags::empty())?;
    fs::rename(unnamed, directory.join(LOCK))?;
    Ok(file)
}

/// Notes that a directory stays for another tool, until its run is ended.
pub(super) fn leave_for(directory: &Path, run: &RunId) -> io::Result<()> {
    let mut options = File::options();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(directory.join(LEFT))?;
    file.write_all(run.to_string().as_bytes())
}

/// Removes the directories whose processes are all gone. What cannot be removed stays for the next time.
pub(super) fn sweep(place: &Path) {
    for directory in own_directories(place) {
        if directory.join(LEFT).exists() || !is_forsaken(&directory) {
            continue;
        }
        _ = fs::remove_dir_all(directory);
    }
}

/// Removes the directories that were left for a run; answers those that could not be.
pub(crate) fn remove_left(run: &RunId) -> Vec<(PathBuf, io::Error)> {
    remove_left_in(&std::env::temp_dir(), run)
}

fn remove_left_in(place: &Path, run: &RunId) -> Vec<(PathBuf, io::Error)> {
    let wanted = run.to_string();
    let is_of_run = |directory: &PathBuf| {
        fs::read_to_string(directory.join(LEFT)).is_ok_and(|run| run == wanted)
    };
    own_directories(place)
        .filter(is_of_run)
        .filter_map(|directory| {
            let error = fs::remove_dir_all(&directory).err()?;
            Some((directory, error))
        })
        .collect()
}

/// Directories of ours in a place where others may make some of the same name: of this user, and closed to everybody else.
fn own_directories(place: &Path) -> impl Iterator<Item = PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let is_named = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let path = entry.path();
        // Of the name itself: a link is nothing of ours.
        let found = is_named
            .then(|| fs::symlink_metadata(&path).ok())
            .flatten()?;
        let is_ours = found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0;
        is_ours.then_some(path)
    })
}

/// Whether nobody has the directory in use. One without a lock is of another kl, or just being made.
fn is_forsaken(directory: &Path) -> bool {
    let file = File::options()
        .read(true)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(directory.join(LOCK));
    file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    fn made(place: &Path, name: &str) -> (PathBuf, File) {
        let directory = place.join(name);
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
        let lock = claim(&directory).unwrap();
        (directory, lock)
    }

    #[test]
    fn a_directory_goes_when_the_last_process_that_had_it_is_gone() {
        let place = tempfile::tempdir().unwrap();
        let (directory, lock) = made(place.path(), "kl-run-a");
        sweep(place.path());
        assert!(directory.exists());
        // A child that outlives who made the directory.
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        drop(lock);
        sweep(place.path());
        assert!(directory.exists());
        drop(child.stdin.take());
        child.wait().unwrap();
        sweep(place.path());
        assert!(!directory.exists());
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let (open_to_all, lock) = made(place.path(), "kl-run-open");
        drop(lock);
        fs::set_permissions(&open_to_all, fs::Permissions::from_mode(0o755)).unwrap();
        let (elsewhere, lock) = made(place.path(), "other");
        drop(lock);
        std::os::unix::fs::symlink(&elsewhere, place.path().join("kl-run-link")).unwrap();
        let unlocked = place.path().join("kl-run-bare");
        fs::create_dir(&unlocked).unwrap();
        fs::set_permissions(&unlocked, fs::Permissions::from_mode(0o700)).unwrap();
        sweep(place.path());
        assert!(open_to_all.exists() && elsewhere.exists() && unlocked.exists());
    }

    #[test]
    fn what_was_left_for_a_run_goes_with_that_run() {
        let place = tempfile::tempdir().unwrap();
        let run = |n: u128| RunId::from_uuid(uuid::Uuid::from_u128(n));
        let (directory, lock) = made(place.path(), "kl-run-left");
        leave_for(&directory, &run(1)).unwrap();
        drop(lock);
        sweep(place.path());
        assert!(remove_left_in(place.path(), &run(2)).is_empty());
        assert!(directory.exists());
        assert!(remove_left_in(place.path(), &run(1)).is_empty());
        assert!(!directory.exists());
    }
}
