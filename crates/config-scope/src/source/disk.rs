//! The edge of this crate: the one place that reads files.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    SourceFile, SourcePath, SourceTree,
    name::{Flavour, is_configuration_name, is_variables_name},
};

/// A configuration on disk.
#[derive(Clone, Debug)]
pub struct DiskTree {
    root: PathBuf,
    data_dir: PathBuf,
}

impl DiskTree {
    /// `root` is the directory of the root module, `data_dir` the one whose
    /// `modules/modules.json` names the installed modules (`.terraform`, unless `TF_DATA_DIR`
    /// says otherwise); a relative `data_dir` is meant from `root`.
    pub fn new(root: impl Into<PathBuf>, data_dir: impl AsRef<Path>) -> Self {
        let root = root.into();
        let data_dir = root.join(data_dir);
        Self { root, data_dir }
    }
}

impl SourceTree for DiskTree {
    fn list(&self, directory: &SourcePath) -> io::Result<Option<Vec<SourceFile>>> {
        let directory = self.root.join(directory.as_str());
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry?.path();
            // What is not UTF-8 in a name is replaced: the name is only shown and compared.
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy())
                .unwrap_or_default();
            // The flavour is the analysis' to decide; here the wider rule holds.
            let wanted =
                is_configuration_name(&name, Flavour::OpenTofu) || is_variables_name(&name);
            // A directory called `x.tf` is skipped by Terraform too. Links are followed.
            if !wanted
                || fs::metadata(&path)
                    .map_err(|error| naming(&path, error))?
                    .is_dir()
            {
                continue;
            }
            let bytes = fs::read(&path).map_err(|error| naming(&path, error))?;
            files.push(SourceFile {
                name: name.into_owned(),
                bytes,
            });
        }
        Ok(Some(files))
    }

    fn manifest(&self) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.data_dir.join("modules").join("modules.json")) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Puts the file into the message: a directory holds many.
fn naming(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
