//! The `backend "http"` block of the `.tf` files in the working directory.
//!
//! Only literal strings are understood, which is all that Terraform allows there. A later override
//! file (`override.tf`, `*_override.tf`) replaces the block of the plain files, as in Terraform.

use std::fs;
use std::path::Path;

use hcl_edit::Span as _;
use hcl_edit::expr::Expression;
use hcl_edit::structure::{Block, Body};
use serde_json::Value;

use super::terraform::HttpBackend;
use super::{Origin, Surroundings};
use crate::secret::Secret;

/// The block, or why the files could not be used; `Ok(None)` if there is no such block.
pub(super) fn read(surroundings: &Surroundings) -> Result<Option<HttpBackend>, String> {
    let mut found = None;
    for name in configuration_files(&surroundings.directory) {
        let path = surroundings.directory.join(&name);
        // A file that went away or is not text is Terraform's business to complain about.
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        // Cheap and sure: no file without the word has the block, and most files have no word.
        if !text.contains("backend") {
            continue;
        }
        let here = if name.ends_with(".json") {
            in_json(&text, Path::new(&name))
        } else {
            in_hcl(&text, Path::new(&name))
        }?;
        found = here.or(found);
    }
    Ok(found)
}

/// Which backend the configuration of a directory has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BackendKind {
    Http,
    None,
    /// Its type; `cloud` for the block of that name.
    Other(String),
}

/// Looks for the block that counts: the last one, override files after plain ones.
///
/// # Errors
/// `FILE:LINE: …` for a file that cannot be read.
pub(crate) fn kind(directory: &Path) -> Result<BackendKind, String> {
    let mut kind = BackendKind::None;
    for name in configuration_files(directory) {
        let Ok(text) = fs::read_to_string(directory.join(&name)) else {
            continue;
        };
        if !text.contains("backend") && !text.contains("cloud") {
            continue;
        }
        let here = if name.ends_with(".json") {
            kind_in_json(&text, Path::new(&name))
        } else {
            kind_in_hcl(&text, Path::new(&name))
        }?;
        kind = here.map_or(kind, BackendKind::of);
    }
    Ok(kind)
}

impl BackendKind {
    fn of(word: String) -> Self {
        match word.as_str() {
            "http" => Self::Http,
            _ => Self::Other(word),
        }
    }
}

fn kind_in_hcl(text: &str, path: &Path) -> Result<Option<String>, String> {
    let body = parsed(text, path)?;
    let blocks = body
        .get_blocks("terraform")
        .flat_map(|terraform| terraform.body.blocks());
    Ok(blocks
        .filter_map(|block| match block.ident.as_str() {
            "cloud" => Some("cloud".to_owned()),
            "backend" => block.labels.first().map(|label| label.as_str().to_owned()),
            _ => None,
        })
        .last())
}

fn kind_in_json(text: &str, path: &Path) -> Result<Option<String>, String> {
    let document = json(text, path)?;
    let Some(terraform) = step(&document, "terraform") else {
        return Ok(None);
    };
    if step(&terraform, "cloud").is_some() {
        return Ok(Some("cloud".to_owned()));
    }
    let backend = step(&terraform, "backend");
    let word = backend.as_ref().and_then(|backend| match backend {
        Value::Array(items) => items
            .iter()
            .find_map(|item| item.as_object()?.keys().next()),
        other => other.as_object()?.keys().next(),
    });
    Ok(word.cloned())
}

/// Names of the configuration files in the order in which they count: plain ones by name, then
/// overrides by name.
fn configuration_files(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".tf") || name.ends_with(".tf.json"))
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort_by_key(|name| (is_override(name), name.clone()));
    names
}

fn is_override(name: &str) -> bool {
    let stem = name.trim_end_matches(".json").trim_end_matches(".tf");
    stem == "override" || stem.ends_with("_override")
}

fn in_hcl(text: &str, path: &Path) -> Result<Option<HttpBackend>, String> {
    let (text, body) = (unmarked(text), parsed(text, path)?);
    Ok(body
        .get_blocks("terraform")
        .flat_map(|terraform| terraform.body.get_blocks("backend"))
        .filter(|backend| backend.has_exact_labels(&["http"]))
        .last()
        .map(|backend| HttpBackend {
            address: attribute(backend, "address", text, path),
            password: attribute(backend, "password", text, path)
                .map(|(password, origin)| (Secret::new(password), origin)),
        }))
}

/// The parser refuses a byte-order mark, Terraform does not.
fn unmarked(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn parsed(text: &str, path: &Path) -> Result<Body, String> {
    unmarked(text)
        .parse()
        .map_err(|error: hcl_edit::parser::Error| {
            let at = error.location();
            format!(
                "{}:{}: not readable as HCL: {}",
                path.display(),
                at.line(),
                error.message()
            )
        })
}

fn json(text: &str, path: &Path) -> Result<Value, String> {
    serde_json::from_str(unmarked(text))
        .map_err(|error| format!("{}:{}: not readable as JSON", path.display(), error.line()))
}

/// A member of an object, or of the first object in a list that has it.
fn step(value: &Value, key: &str) -> Option<Value> {
    match value {
        Value::Array(items) => items.iter().find_map(|item| item.get(key)).cloned(),
        other => other.get(key).cloned(),
    }
}

fn attribute(block: &Block, name: &str, text: &str, path: &Path) -> Option<(String, Origin)> {
    let attribute = block.body.get_attribute(name)?;
    let Expression::String(value) = &attribute.value else {
        return None;
    };
    let offset = attribute.span().map_or(0, |span| span.start);
    let line = 1 + text[..offset].matches('\n').count();
    Some((
        value.as_str().to_owned(),
        Origin::Line(path.to_owned(), line),
    ))
}

/// The JSON form: `{"terraform": {"backend": {"http": {…}}}}`, each level also as a list of one.
fn in_json(text: &str, path: &Path) -> Result<Option<HttpBackend>, String> {
    let document = json(text, path)?;
    let block = ["terraform", "backend", "http"]
        .into_iter()
        .try_fold(document, |value, key| step(&value, key));
    let text_of = |key: &str| {
        let value = step(block.as_ref()?, key)?;
        Some((value.as_str()?.to_owned(), Origin::File(path.to_owned())))
    };
    Ok(block.as_ref().map(|_| HttpBackend {
        address: text_of("address"),
        password: text_of("password").map(|(password, origin)| (Secret::new(password), origin)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_files(files: &[(&str, &str)]) -> Result<Option<HttpBackend>, String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        read(&Surroundings::for_test(folder.path(), &[]))
    }

    fn address(files: &[(&str, &str)]) -> (String, String) {
        let (address, origin) = read_files(files).unwrap().unwrap().address.unwrap();
        (address, origin.to_string())
    }

    #[test]
    fn the_block_is_found_with_its_line() {
        let text = "# é\nterraform {\n  required_version = \">= 1\"\n  backend \"http\" {\n    address = \"https://h/x\"\n  }\n}\n";
        assert_eq!(
            address(&[("a.tf", "variable \"backend\" {}\n"), ("main.tf", text)]),
            ("https://h/x".to_owned(), "main.tf:5".to_owned())
        );
        let marked = format!("\u{feff}{text}");
        assert_eq!(address(&[("main.tf", &marked)]).1, "main.tf:5");
    }

    #[test]
    fn an_override_replaces_it_wherever_its_name_sorts() {
        let block = |url: &str| {
            format!("terraform {{\n backend \"http\" {{\n address = \"{url}\"\n }}\n}}\n")
        };
        assert_eq!(
            address(&[
                ("a_override.tf", &block("https://over")),
                ("main.tf", &block("https://plain"))
            ])
            .0,
            "https://over"
        );
    }

    #[test]
    fn json_configuration_counts_too() {
        let text =
            r#"{"terraform":[{"backend":{"http":{"address":"https://h/j","password":"p"}}}]}"#;
        assert_eq!(address(&[("main.tf.json", text)]).0, "https://h/j");
    }

    #[test]
    fn other_backends_and_other_files_are_left_alone() {
        assert!(
            read_files(&[("main.tf", "terraform {\n backend \"s3\" {}\n}\n")])
                .unwrap()
                .is_none()
        );
        assert!(
            read_files(&[("broken.tf", "resource {{{"), ("x.txt", "backend")])
                .unwrap()
                .is_none()
        );
        let note = read_files(&[("main.tf", "terraform {\n backend \"http\" {\n")]).unwrap_err();
        assert!(note.starts_with("main.tf:"), "{note}");
    }

    #[test]
    fn the_backend_that_counts_is_the_last_one() {
        let kind_of = |files: &[(&str, &str)]| {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in files {
                fs::write(folder.path().join(name), text).unwrap();
            }
            kind(folder.path()).unwrap()
        };
        let http = ("main.tf", "terraform {\n backend \"http\" {}\n}\n");
        assert_eq!(kind_of(&[("x.tf", "locals {}")]), BackendKind::None);
        assert_eq!(kind_of(&[http]), BackendKind::Http);
        let local = (
            "z_override.tf.json",
            r#"{"terraform":{"backend":{"local":{}}}}"#,
        );
        assert_eq!(
            kind_of(&[http, local]),
            BackendKind::Other("local".to_owned())
        );
        let cloud = ("a.tf", "terraform {\n cloud {}\n}\n");
        assert_eq!(kind_of(&[cloud]), BackendKind::Other("cloud".to_owned()));
    }

    #[test]
    fn an_address_that_is_not_a_literal_is_not_guessed() {
        let text =
            "terraform {\n backend \"http\" {\n address = \"https://${var.host}/x\"\n }\n}\n";
        assert!(
            read_files(&[("main.tf", text)])
                .unwrap()
                .unwrap()
                .address
                .is_none()
        );
    }
}
