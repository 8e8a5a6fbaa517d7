//! From flags to files and targets.

use std::path::{Path, PathBuf};

use config_scope::{FileRole, Selection, Selectors, SourcePath, Target};

use super::git;
use crate::failure::{Failure, Result};

/// What a person asked for, as typed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) targets: Vec<String>,
    pub(crate) changed_from: Option<String>,
    pub(crate) replace: Vec<String>,
    pub(crate) destroy: bool,
}

impl Asked {
    /// Whether nothing was selected, which means the whole state.
    pub(crate) fn is_whole(&self) -> bool {
        self.files.is_empty()
            && self.targets.is_empty()
            && self.changed_from.is_none()
            && self.replace.is_empty()
    }
}

/// What was selected, and what that means in the configuration.
#[derive(Debug)]
pub(crate) struct Selected {
    /// Relative to the root module.
    pub(crate) files: Vec<SourcePath>,
    /// Whether the files were named by a person, who is told if one of them selects nothing.
    pub(crate) files_were_named: bool,
    pub(crate) selection: Selection,
}

/// Reads the selectors and resolves them in the configuration.
///
/// # Errors
/// Usage failures for what is no address, no file, or no revision.
pub(crate) fn select(
    configuration: &config_scope::Configuration,
    asked: &Asked,
    directory: &Path,
) -> Result<Selected> {
    let mut files = Vec::new();
    for file in &asked.files {
        files.push(source_path(file, directory)?);
    }
    let files_were_named = !files.is_empty();
    if let Some(revision) = &asked.changed_from {
        let changed = git::changed_since(revision, directory)?;
        // A revision changes documents and pipelines, too; only what Terraform reads selects.
        let matters = |file: &SourcePath| {
            configuration.declared_in(file).role != FileRole::Unknown || is_configuration(file)
        };
        files.extend(changed.into_iter().filter(matters));
        files.sort();
        files.dedup();
    }
    let mut targets = Vec::new();
    for text in asked.targets.iter().chain(&asked.replace) {
        let target: Target = text.parse().map_err(|error| {
            Failure::usage(format!("`{text}` is not an address: {error}"))
                .hint("an address is TYPE.NAME, module.NAME, or one of their instances, quoted for the shell")
        })?;
        targets.push(target);
    }
    let selection = configuration.select(&Selectors {
        files: files.clone(),
        targets,
    });
    Ok(Selected {
        files,
        files_were_named,
        selection,
    })
}

/// Whether a file that is gone may have been part of a configuration.
fn is_configuration(file: &SourcePath) -> bool {
    config_scope::is_configuration_name(file.file_name(), config_scope::Flavour::OpenTofu)
}

/// A path as typed, relative to the root module.
fn source_path(file: &Path, directory: &Path) -> Result<SourcePath> {
    let relative = file.strip_prefix(directory).unwrap_or(file);
    let text = relative
        .to_str()
        .ok_or_else(|| Failure::usage(format!("{} is not a name in UTF-8", file.display())))?;
    if directory.join(relative).is_dir() {
        return Err(
            Failure::usage(format!("{text} is a directory; -f takes files"))
                .hint("name the files in it one by one, or a module by --target module.NAME"),
        );
    }
    Ok(SourcePath::new(text))
}
