//! State documents of the harness: a few resources, each with a value and the value that its writer saw there before.
//!
//! They are written as Terraform writes them, so that the service keeps them as rows.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// What stands at an address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cell {
    pub value: String,
    /// What its writer saw.
    pub before: String,
}

/// A whole state, or a slice of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub serial: u64,
    pub lineage: String,
    pub cells: BTreeMap<String, Cell>,
}

/// Terraform's order: the root module first, then by name.
fn place(address: &str) -> (&str, &str, &str) {
    let (module, rest) = match address.strip_prefix("module.") {
        Some(rest) => {
            let end = rest
                .find('.')
                .map_or(address.len(), |at| at + "module.".len());
            (&address[..end], &address[(end + 1).min(address.len())..])
        }
        None => ("", address),
    };
    let (kind, name) = rest.split_once('.').unwrap_or((rest, ""));
    (module, kind, name)
}

/// The segments of an address as claims have them.
#[must_use]
pub fn segments(address: &str) -> Vec<String> {
    if address == "*" {
        return Vec::new();
    }
    let (module, kind, name) = place(address);
    let mut segments = Vec::new();
    if !module.is_empty() {
        segments.push(module.to_owned());
    }
    if !name.is_empty() {
        segments.push(format!("{kind}.{name}"));
    }
    segments
}

impl Document {
    /// Reads a document that the service sent.
    ///
    /// # Errors
    ///
    /// When it is none of ours.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(bytes)?;
        let mut cells = BTreeMap::new();
        for resource in value["resources"].as_array().context("no resources")? {
            let module = resource["module"].as_str();
            let kind = resource["type"].as_str().unwrap_or_default();
            let name = resource["name"].as_str().unwrap_or_default();
            let address = match module {
                Some(module) => format!("{module}.{kind}.{name}"),
                None => format!("{kind}.{name}"),
            };
            if let Some(cell) = resource
                .pointer("/instances/0/attributes")
                .and_then(cell_of)
            {
                cells.insert(address, cell);
            }
        }
        Ok(Self {
            serial: value["serial"].as_u64().context("no serial")?,
            lineage: value["lineage"].as_str().unwrap_or_default().to_owned(),
            cells,
        })
    }

    /// The document as Terraform writes it.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut cells: Vec<(&String, &Cell)> = self.cells.iter().collect();
        cells.sort_by_key(|(address, _)| place(address));
        let resources: Vec<String> = cells
            .iter()
            .map(|(address, cell)| resource(address, cell))
            .collect();
        let resources = if resources.is_empty() {
            "[]".to_owned()
        } else {
            format!("[\n{}\n  ]", resources.join(",\n"))
        };
        format!(
            "{{\n  \"version\": 4,\n  \"terraform_version\": \"1.11.4\",\n  \"serial\": {},\n  \"lineage\": \"{}\",\n  \
             \"outputs\": {{}},\n  \"resources\": {resources},\n  \"check_results\": null\n}}\n",
            self.serial, self.lineage
        )
        .into_bytes()
    }

    /// Each address with its value.
    #[must_use]
    pub fn values(&self) -> BTreeMap<String, String> {
        let value = |(address, cell): (&String, &Cell)| (address.clone(), cell.value.clone());
        self.cells.iter().map(value).collect()
    }
}

/// Reads the attributes of an instance.
#[must_use]
pub fn cell_of(attributes: &Value) -> Option<Cell> {
    Some(Cell {
        value: attributes["v"].as_str()?.to_owned(),
        before: attributes["prev"].as_str()?.to_owned(),
    })
}

/// One resource as a member of `resources`.
#[must_use]
pub fn resource(address: &str, cell: &Cell) -> String {
    let (module, kind, name) = place(address);
    let mut text = String::from("    {\n");
    if !module.is_empty() {
        let _ = writeln!(text, "      \"module\": \"{module}\",");
    }
    let _ = write!(
        text,
        "      \"mode\": \"managed\",\n      \"type\": \"{kind}\",\n      \"name\": \"{name}\",\n      \
         \"provider\": \"provider[\\\"terraform.io/builtin/terraform\\\"]\",\n      \"instances\": [\n        {{\n          \
         \"schema_version\": 0,\n          \"attributes\": {{\n            \"id\": \"{name}\",\n            \
         \"prev\": \"{}\",\n            \"v\": \"{}\"\n          }},\n          \"sensitive_attributes\": []\n        \
         }}\n      ]\n    }}",
        cell.before, cell.value
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let cell = |value: &str| Cell {
            value: value.to_owned(),
            before: "x".to_owned(),
        };
        Document {
            serial: 3,
            lineage: "l".to_owned(),
            cells: [
                ("terraform_data.a0".to_owned(), cell("c1.1")),
                ("module.m.terraform_data.b0".to_owned(), cell("c1.2")),
            ]
            .into(),
        }
    }

    #[test]
    fn a_document_reads_back_and_is_what_terraform_writes() {
        let bytes = document().bytes();
        assert_eq!(Document::read(&bytes).unwrap(), document());
        // The service keeps what it can render as rows.
        let tfstate::Document::State(state) = tfstate::parse(&bytes).unwrap() else {
            panic!("opaque");
        };
        assert!(state.reproduces(&bytes));
    }

    #[test]
    fn segments_are_those_of_claims() {
        assert_eq!(segments("terraform_data.a0"), ["terraform_data.a0"]);
        assert_eq!(
            segments("module.m.terraform_data.b0"),
            ["module.m", "terraform_data.b0"]
        );
        assert_eq!(segments("module.m"), ["module.m"]);
        assert!(segments("*").is_empty());
    }
}
