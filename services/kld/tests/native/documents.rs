//! States with modules, keys, deposed objects and dependencies, as Terraform writes them.

use serde_json::{Value, json};

use crate::lane::documents::LINEAGE;

/// A state as it is built up in a test.
#[derive(Debug, Clone, Default)]
pub(super) struct Built {
    pub(super) serial: u64,
    objects: Vec<Object>,
    outputs: Vec<(String, String)>,
}

#[derive(Debug, Clone)]
struct Object {
    /// As the document has it: empty for the root.
    module: String,
    mode: &'static str,
    name: String,
    key: Option<Value>,
    deposed: Option<String>,
    value: String,
    dependencies: Vec<String>,
}

impl Built {
    pub(super) fn new(serial: u64) -> Self {
        Self {
            serial,
            ..Self::default()
        }
    }

    /// An object of `terraform_data` or, with `data.`, of a data source, at an address.
    pub(super) fn with(self, address: &str, value: &str, dependencies: &[&str]) -> Self {
        self.object(address, None, value, dependencies)
    }

    pub(super) fn deposed(self, address: &str, key: &str, value: &str) -> Self {
        self.object(address, Some(key), value, &[])
    }

    pub(super) fn output(mut self, name: &str, value: &str) -> Self {
        self.outputs.push((name.to_owned(), value.to_owned()));
        self
    }

    fn object(
        mut self,
        address: &str,
        deposed: Option<&str>,
        value: &str,
        dependencies: &[&str],
    ) -> Self {
        let parsed: tfstate::Address = address.parse().unwrap();
        self.objects.push(Object {
            module: parsed.module_path(),
            mode: parsed.mode.as_str(),
            name: parsed.name.clone(),
            key: parsed.key.map(|key| match key {
                tfstate::Key::Int(number) => json!(number),
                tfstate::Key::Str(text) => json!(text),
            }),
            deposed: deposed.map(str::to_owned),
            value: value.to_owned(),
            dependencies: dependencies.iter().map(ToString::to_string).collect(),
        });
        self
    }

    /// The document, not as Terraform lays it out; the order of its members is.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let resources: Vec<Value> = self
            .objects
            .iter()
            .map(|object| {
                let mut instance = json!({
                    "schema_version": 0,
                    "attributes": { "id": object.value, "input": { "value": object.value, "type": "string" } },
                    "sensitive_attributes": [],
                    "dependencies": object.dependencies,
                });
                if let Some(key) = &object.key {
                    instance["index_key"] = key.clone();
                }
                if let Some(deposed) = &object.deposed {
                    instance["deposed"] = json!(deposed);
                }
                let mut block = json!({
                    "mode": object.mode,
                    "type": "terraform_data",
                    "name": object.name,
                    "provider": "provider[\"terraform.io/builtin/terraform\"]",
                    "instances": [instance],
                });
                if !object.module.is_empty() {
                    block["module"] = json!(object.module);
                }
                block
            })
            .collect();
        let outputs: serde_json::Map<String, Value> = self
            .outputs
            .iter()
            .map(|(name, value)| (name.clone(), json!({ "value": value, "type": "string" })))
            .collect();
        let document = json!({
            "version": 4, "terraform_version": "1.11.4", "serial": self.serial, "lineage": LINEAGE,
            "outputs": outputs, "resources": resources, "check_results": null,
        });
        serde_json::to_vec(&document).unwrap()
    }
}

/// A network that everything depends on, a service with keys in its address, and something apart.
pub(super) fn network() -> Built {
    Built::new(1)
        .with("terraform_data.net", "net", &[])
        .with(
            "data.terraform_data.zones",
            "zones",
            &["terraform_data.net"],
        )
        .with(
            "module.svc[\"eu.west\"].terraform_data.db[0]",
            "db0",
            &["terraform_data.net"],
        )
        .with(
            "module.svc[\"eu.west\"].terraform_data.db[1]",
            "db1",
            &["terraform_data.net"],
        )
        .deposed(
            "module.svc[\"eu.west\"].terraform_data.db[1]",
            "0a0b0c0d",
            "old",
        )
        .with(
            "module.svc[\"us\"].terraform_data.db[0]",
            "db2",
            &["terraform_data.net"],
        )
        .with(
            "module.svc[\"eu.west\"].terraform_data.app",
            "app",
            &["module.svc.terraform_data.db", "terraform_data.net"],
        )
        .with("terraform_data.apart", "apart", &[])
        .output("net", "net")
        .output("apart", "apart")
}
