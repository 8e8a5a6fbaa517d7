//! `modules.json`: where `terraform init` put the modules that do not stand next to their caller.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::source::SourcePath;

/// Directories by dotted call path (`network.subnets`).
#[derive(Debug, Default)]
pub(super) struct Manifest {
    directories: BTreeMap<String, SourcePath>,
}

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "Modules", default)]
    modules: Vec<Record>,
}

#[derive(Deserialize)]
struct Record {
    #[serde(rename = "Key", default)]
    key: String,
    #[serde(rename = "Dir", default)]
    dir: String,
}

impl Manifest {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let document: Document = serde_json::from_slice(bytes)?;
        let records = document.modules.into_iter();
        let directories = records.map(|record| (record.key, SourcePath::new(&record.dir)));
        Ok(Self {
            directories: directories.collect(),
        })
    }

    pub(super) fn directory(&self, key: &str) -> Option<&SourcePath> {
        self.directories.get(key)
    }
}
