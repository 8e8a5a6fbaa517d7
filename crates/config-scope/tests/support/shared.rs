//! The shared inputs of the workspace's tests: cases and real configurations.

use std::{env, fs, path::PathBuf};

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

/// The directories directly beneath `relative`, by name.
pub(crate) fn directories(relative: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(shared(relative)).expect("a readable directory");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable entry").path())
        .collect();
    paths.retain(|path| path.is_dir());
    paths.sort();
    paths
}
