//! `.kl.toml`: the nearest one from the working directory upward.
//!
//! Finding it and deciding whether it may be believed; what it says is read in [`reader`].

mod reader;

use std::path::{Path, PathBuf};

use super::{Layer, Surroundings};
use crate::failure::{Failure, Kind, Result};

pub(crate) const NAME: &str = ".kl.toml";

/// Reads the nearest `.kl.toml`; an empty layer if there is none.
///
/// # Errors
/// Usage failures that start with `FILE:LINE:`, also for a file that another user has planted
/// above the working directory.
pub(super) fn read(surroundings: &Surroundings) -> Result<Layer> {
    let Some(path) = find(&surroundings.directory) else {
        return Ok(Layer::default());
    };
    refuse_foreign_owner(&path, surroundings)?;
    let text = std::fs::read_to_string(&path).map_err(|error| {
        Failure::new(Kind::Usage, error).context(format!("could not read {}", path.display()))
    })?;
    reader::parse(&text, &path, surroundings)
}

fn find(directory: &Path) -> Option<PathBuf> {
    directory
        .ancestors()
        .map(|folder| folder.join(NAME))
        .find(|path| path.is_file())
}

/// A configuration file says where the token is sent and may name a command to run. One that
/// somebody else put into a shared folder above (`/tmp/.kl.toml`) must not decide that. Accepted
/// are files of root, of the owner of the working directory and of the owner of the home directory.
#[cfg(unix)]
fn refuse_foreign_owner(path: &Path, surroundings: &Surroundings) -> Result<()> {
    use std::os::unix::fs::MetadataExt;

    let owner = |path: &Path| path.metadata().map(|found| found.uid()).ok();
    let file = owner(path);
    let home = surroundings.variable("HOME").map(Path::new).and_then(owner);
    if is_believed(file, owner(&surroundings.directory), home) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{} belongs to another user and is not read",
        path.display()
    ))
    .hint("take it away, or run `kl init` here to write one of your own"))
}

/// Owners by number; `None` where there is none to be asked.
#[cfg(unix)]
fn is_believed(file: Option<u32>, directory: Option<u32>, home: Option<u32>) -> bool {
    const ROOT: u32 = 0;
    file.is_some_and(|file| file == ROOT || Some(file) == directory || Some(file) == home)
}

#[cfg(not(unix))]
fn refuse_foreign_owner(_: &Path, _: &Surroundings) -> Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::is_believed;

    #[test]
    fn a_file_that_a_stranger_planted_is_not_believed() {
        let (root, me, stranger) = (Some(0), Some(1000), Some(1001));
        assert!(is_believed(me, me, me), "mine, in my directory");
        assert!(
            is_believed(me, root, me),
            "mine, in a container's directory"
        );
        assert!(is_believed(root, me, me), "the machine's");
        assert!(
            is_believed(me, me, root),
            "of the checkout that a container's root works in"
        );
        assert!(
            !is_believed(stranger, me, me),
            "/tmp/.kl.toml of somebody else"
        );
        assert!(!is_believed(stranger, me, None));
        assert!(!is_believed(None, None, None));
    }
}
