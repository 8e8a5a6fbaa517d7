//! The shared inputs of the workspace's tests: cases and real configurations.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// `relative` beneath the shared directory. A test that needs it fails where it is missing.
pub(crate) fn shared(relative: &str) -> PathBuf {
    let base = env::var_os("KL_SHARED_DIR").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let path = base.join(relative);
    assert!(
        path.exists(),
        "{} is missing; set KL_SHARED_DIR",
        path.display()
    );
    path
}

/// What stands directly in `directory`, by name.
pub(crate) fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a readable directory");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable entry").path())
        .collect();
    paths.sort();
    paths
}

/// The directories directly beneath `relative`, by name.
pub(crate) fn directories(relative: &str) -> Vec<PathBuf> {
    let mut paths = entries(&shared(relative));
    paths.retain(|path| path.is_dir());
    paths
}

pub(crate) fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Writes `bytes` to a file whose directories may have to be made.
pub(crate) fn put(path: &Path, bytes: &[u8]) {
    let directory = path.parent().expect("a path with a directory");
    fs::create_dir_all(directory).expect("a writable directory");
    fs::write(path, bytes).expect("a writable file");
}

/// Copies a directory with all that is in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    for path in entries(from) {
        let target = to.join(file_name(&path));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            put(&target, &fs::read(&path).expect("a readable file"));
        }
    }
}
