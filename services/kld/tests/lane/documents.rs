//! Documents to write: small ones made to measure, and the shared input files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// The lineage of every document that names no other.
pub(crate) const LINEAGE: &str = "3f0c5a1e-0000-4000-8000-000000000001";

/// A file of the shared inputs.
pub(crate) fn shared_path(path: &str) -> PathBuf {
    let root = match std::env::var_os("KL_SHARED_DIR") {
        Some(directory) => PathBuf::from(directory),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    root.join(path)
}

/// The content of a file of the shared inputs.
pub(crate) fn shared(path: &str) -> Vec<u8> {
    let path = shared_path(path);
    std::fs::read(&path).unwrap_or_else(|error| {
        panic!(
            "{}: {error}; KL_SHARED_DIR names the directory of the shared inputs",
            path.display()
        )
    })
}

/// An input file of the catalogue of cases.
pub(crate) fn case(file: &str) -> Vec<u8> {
    shared(&format!("cases/files/{file}"))
}

/// A document as Terraform writes it, of `terraform_data` resources with one value each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Doc {
    pub(crate) serial: u64,
    pub(crate) lineage: String,
    pub(crate) outputs: BTreeMap<String, String>,
    /// By resource name and, for those with `count`, number.
    pub(crate) resources: BTreeMap<(String, Option<u32>), String>,
}

impl Doc {
    /// Two resources and an output.
    pub(crate) fn new(serial: u64) -> Self {
        Self {
            serial,
            lineage: LINEAGE.to_owned(),
            outputs: BTreeMap::from([("oa".to_owned(), "1".to_owned())]),
            resources: BTreeMap::new(),
        }
        .with("a", "1")
        .with("b", "2")
    }

    /// With so many resources, `r00000` and on.
    pub(crate) fn of_size(serial: u64, count: usize) -> Self {
        let mut document = Self::new(serial);
        document.resources.clear();
        for n in 0..count {
            document = document.with(&format!("r{n:05}"), "start");
        }
        document
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.resources
            .insert((name.to_owned(), None), value.to_owned());
        self
    }

    pub(crate) fn with_lineage(mut self, lineage: &str) -> Self {
        lineage.clone_into(&mut self.lineage);
        self
    }

    pub(crate) fn with_serial(mut self, serial: u64) -> Self {
        self.serial = serial;
        self
    }

    pub(crate) fn without_resources(mut self) -> Self {
        self.resources.clear();
        self.outputs.clear();
        self
    }

    pub(crate) fn without_outputs(mut self) -> Self {
        self.outputs.clear();
        self
    }

    /// The bytes that Terraform would write. Names and values are plain letters and digits.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut text = format!(
            "{{\n  \"version\": 4,\n  \"terraform_version\": \"1.11.4\",\n  \"serial\": {},\n  \"lineage\": \"{}\",\n  \"outputs\": {{",
            self.serial, self.lineage
        );
        for (n, (name, value)) in self.outputs.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            write!(text, "{comma}\n    \"{name}\": {{\n      \"value\": \"{value}\",\n      \"type\": \"string\"\n    }}").unwrap();
        }
        text.push_str(if self.outputs.is_empty() {
            "}"
        } else {
            "\n  }"
        });
        text.push_str(",\n  \"resources\": [");
        let mut last: Option<&str> = None;
        for ((name, index), value) in &self.resources {
            if last == Some(name) {
                text.push(',');
            } else {
                if last.is_some() {
                    text.push_str("\n      ]\n    },");
                }
                write!(text, "\n    {{\n      \"mode\": \"managed\",\n      \"type\": \"terraform_data\",\n      \"name\": \"{name}\",\n      \"provider\": \"provider[\\\"terraform.io/builtin/terraform\\\"]\",\n      \"instances\": [").unwrap();
            }
            last = Some(name);
            let key = index.map_or(String::new(), |index| {
                format!("          \"index_key\": {index},\n")
            });
            write!(
                text,
                "\n        {{\n{key}          \"schema_version\": 0,\n          \"attributes\": {{\n            \"id\": \"id-{name}\",\n            \"input\": {{\n              \"value\": \"{value}\",\n              \"type\": \"string\"\n            }},\n            \"output\": {{\n              \"value\": \"{value}\",\n              \"type\": \"string\"\n            }},\n            \"triggers_replace\": null\n          }},\n          \"sensitive_attributes\": []\n        }}"
            )
            .unwrap();
        }
        text.push_str(if last.is_some() {
            "\n      ]\n    }\n  ]"
        } else {
            "]"
        });
        text.push_str(",\n  \"check_results\": null\n}\n");
        text.into_bytes()
    }
}

/// The bytes of a document with another serial.
pub(crate) fn with_serial(document: &[u8], serial: u64) -> Vec<u8> {
    tfstate::with_serial(document, serial).expect("the document has a serial")
}
