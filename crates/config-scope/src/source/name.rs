//! Which file names are configuration, which of them override, and in what order they count.
//!
//! The rules are Terraform's (`internal/configs/parser_config_dir.go`) and OpenTofu's, whose
//! `x.tofu` stands in for an `x.tf` of the same directory.

use std::collections::BTreeSet;

/// Whose rules for file names hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Flavour {
    /// `.tofu` files are not configuration.
    #[default]
    Terraform,
    OpenTofu,
}

/// How a file is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Syntax {
    Hcl,
    Json,
}

/// Whether a file of this name takes part in a configuration.
pub fn is_configuration_name(name: &str, flavour: Flavour) -> bool {
    !is_ignored(name) && split(name, flavour).is_some()
}

/// Whether a file of this name assigns variables (`.tfvars`, `.tfvars.json`).
pub fn is_variables_name(name: &str) -> bool {
    !is_ignored(name) && (name.ends_with(".tfvars") || name.ends_with(".tfvars.json"))
}

/// How the text of a configuration or variables file is to be read.
pub(crate) fn syntax_of(name: &str) -> Syntax {
    if name.ends_with(".json") {
        Syntax::Json
    } else {
        Syntax::Hcl
    }
}

/// The names that count in one directory: first the primary files, then the override files, each
/// in the order in which they are merged.
pub(crate) fn effective_names<'n>(
    names: impl Iterator<Item = &'n str>,
    flavour: Flavour,
) -> (Vec<&'n str>, Vec<&'n str>) {
    let names: BTreeSet<&str> = names
        .filter(|name| is_configuration_name(name, flavour))
        .collect();
    names
        .iter()
        .copied()
        .filter(|name| !is_replaced(name, &names, flavour))
        .partition(|name| {
            !split(name, flavour)
                .is_some_and(|(base, _)| base == "override" || base.ends_with("_override"))
        })
}

/// Terraform skips hidden files and what editors leave behind.
fn is_ignored(name: &str) -> bool {
    name.starts_with('.') || name.ends_with('~') || (name.starts_with('#') && name.ends_with('#'))
}

/// A configuration file's base name and extension.
fn split(name: &str, flavour: Flavour) -> Option<(&str, &'static str)> {
    let extensions: &[&'static str] = match flavour {
        Flavour::Terraform => &[".tf", ".tf.json"],
        Flavour::OpenTofu => &[".tf", ".tf.json", ".tofu", ".tofu.json"],
    };
    extensions
        .iter()
        .find_map(|extension| Some((name.strip_suffix(extension)?, *extension)))
}

/// Whether a `.tofu` file stands in for this one.
fn is_replaced(name: &str, names: &BTreeSet<&str>, flavour: Flavour) -> bool {
    let replacement = match split(name, flavour) {
        Some((base, ".tf")) => format!("{base}.tofu"),
        Some((base, ".tf.json")) => format!("{base}.tofu.json"),
        _ => return false,
    };
    names.contains(replacement.as_str())
}

#[cfg(test)]
mod tests {
    use super::{Flavour, effective_names};

    #[test]
    fn override_files_come_last_in_name_order() {
        let names = [
            "z.tf",
            "override.tf",
            "aa_override.tf",
            "a.tf.json",
            ".h.tf",
            "b.tf~",
            "x.md",
        ];
        let (primary, overrides) = effective_names(names.into_iter(), Flavour::Terraform);
        assert_eq!(primary, ["a.tf.json", "z.tf"]);
        assert_eq!(overrides, ["aa_override.tf", "override.tf"]);
    }

    #[test]
    fn a_tofu_file_stands_in_for_the_tf_file_of_its_name() {
        let names = [
            "a.tf",
            "a.tofu",
            "a.tf.json",
            "b.tf",
            "o_override.tf",
            "o_override.tofu",
        ];
        let (primary, overrides) = effective_names(names.into_iter(), Flavour::OpenTofu);
        assert_eq!(primary, ["a.tf.json", "a.tofu", "b.tf"]);
        assert_eq!(overrides, ["o_override.tofu"]);
        let (primary, _) = effective_names(names.into_iter(), Flavour::Terraform);
        assert_eq!(primary, ["a.tf", "a.tf.json", "b.tf"]);
    }
}
