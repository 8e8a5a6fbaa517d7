//! Documents to make histories of.

use std::path::{Path, PathBuf};

/// A file of the shared inputs.
pub(crate) fn shared(name: &str) -> Vec<u8> {
    let shared = std::env::var_os("KL_SHARED_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let path = shared.join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents of the corpus that Terraform accepts, by name.
pub(crate) fn corpus() -> Vec<(String, Vec<u8>)> {
    let index = String::from_utf8(shared("corpus/states/INDEX.md")).unwrap();
    index
        .lines()
        .filter(|line| line.contains("| accepted ("))
        .filter_map(|line| line.strip_prefix("| ")?.split(' ').next())
        .map(|name| (name.to_owned(), shared(&format!("corpus/states/{name}"))))
        .collect()
}

/// A document of `count` instances, of which those below `changed` have changed in this serial.
pub(crate) fn document(serial: u64, count: usize, changed: usize) -> Vec<u8> {
    let rows: Vec<String> = (0..count)
        .map(|index| {
            let since = if index < changed { serial } else { 0 };
            format!(
                "    {{\n      \"mode\": \"managed\",\n      \"type\": \"terraform_data\",\n      \"name\": \"r{index:06}\",\n      \"provider\": \"provider[\\\"terraform.io/builtin/terraform\\\"]\",\n      \"instances\": [\n        {{\n          \"schema_version\": 0,\n          \"attributes\": {{\n            \"id\": \"id-{index}\",\n            \"input\": \"since {since}\"\n          }}\n        }}\n      ]\n    }}"
            )
        })
        .collect();
    let resources = if rows.is_empty() {
        "[]".to_owned()
    } else {
        format!("[\n{}\n  ]", rows.join(",\n"))
    };
    format!(
        "{{\n  \"version\": 4,\n  \"terraform_version\": \"1.11.4\",\n  \"serial\": {serial},\n  \"lineage\": \"5b1a7f0e-0000-4000-8000-000000000001\",\n  \"outputs\": {{\n    \"serial\": {{\n      \"value\": {serial},\n      \"type\": \"number\"\n    }}\n  }},\n  \"resources\": {resources},\n  \"check_results\": null\n}}\n"
    )
    .into_bytes()
}
