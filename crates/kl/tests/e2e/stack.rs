//! The running stack, and `kl` on a state of one's own in it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use protocol::LockInfo;
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::Done;

/// What `cargo xtask stack` says about itself.
pub(crate) fn stack(name: &str) -> String {
    let name = format!("KL_STACK_{name}");
    std::env::var(&name)
        .unwrap_or_else(|_| panic!("{name} is not set: run this through `cargo xtask stack -- …`"))
}

/// A directory in which `kl` is configured for one state that nobody else uses.
pub(crate) struct Project {
    directory: TempDir,
    pub(crate) state: String,
    token: String,
}

impl Project {
    /// A new state and the writer's token.
    pub(crate) fn new() -> Self {
        Self::with_token(&stack("TOKEN"))
    }

    pub(crate) fn with_token(token: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let state = format!(
            "kl-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let project = Self {
            directory: tempfile::tempdir().unwrap(),
            state,
            token: token.to_owned(),
        };
        project.file(".kl.toml", format!("state_url = \"{}\"\n", project.url()));
        project
    }

    /// The same state, seen with another token.
    pub(crate) fn as_token(&self, token: &str) -> Self {
        let project = Self {
            directory: tempfile::tempdir().unwrap(),
            state: self.state.clone(),
            token: token.to_owned(),
        };
        project.file(".kl.toml", format!("state_url = \"{}\"\n", project.url()));
        project
    }

    pub(crate) fn url(&self) -> String {
        format!(
            "{}/v1/states/{}/{}/{}",
            stack("URL"),
            stack("WORKSPACE"),
            stack("ENV"),
            self.state
        )
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, contents: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), contents).unwrap();
    }

    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.directory.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("USER", "ann")
            .env("CHECKPOINT_DISABLE", "1")
            .env("KL_TOKEN", &self.token)
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn kl_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(assert_cmd::cargo::cargo_bin!("kl"));
        command.args(arguments);
        command
    }

    pub(crate) fn kl(&self, arguments: &[&str]) -> Done {
        Done(self.kl_command(arguments).output().unwrap())
    }

    /// Runs a command with `--json` that must work, and reads what it printed.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let mut all = arguments.to_vec();
        all.push("--json");
        serde_json::from_str(&self.kl(&all).expect(0).stdout()).unwrap()
    }

    /// Imports a document that must be accepted.
    #[track_caller]
    pub(crate) fn import(&self, document: impl AsRef<[u8]>) {
        self.file("import.json", document);
        self.kl(&["import", "snapshot", "import.json"]).expect(0);
    }

    /// Takes the Terraform lock as another client would; answers its id.
    pub(crate) fn lock_by(&self, who: &str) -> String {
        let lock = LockInfo {
            id: uuid::Uuid::new_v4().to_string(),
            operation: "OperationTypeApply".to_owned(),
            who: who.to_owned(),
            version: "1.11.4".to_owned(),
            created: Some(chrono::Utc::now()),
            ..LockInfo::default()
        };
        let body = serde_json::to_vec(&lock).unwrap();
        assert_eq!(self.request("LOCK", &self.url(), body).0, 200);
        lock.id
    }

    /// One request past `kl`: status and body.
    pub(crate) fn request(&self, method: &str, url: &str, body: Vec<u8>) -> (u16, Value) {
        // An error says that another test of this process was first.
        _ = rustls::crypto::ring::default_provider().install_default();
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(async {
                let response = reqwest::Client::new()
                    .request(method.parse().unwrap(), url)
                    .bearer_auth(&self.token)
                    .header("content-type", "application/json")
                    .body(body)
                    .send()
                    .await
                    .unwrap();
                let status = response.status().as_u16();
                let body = response.bytes().await.unwrap();
                (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
            })
    }
}

/// A state with one `terraform_data` per name, as Terraform would write it.
pub(crate) fn document(serial: u64, lineage: &str, names: &[&str]) -> String {
    let resources: Vec<Value> = names
        .iter()
        .map(|name| {
            serde_json::json!({
                "mode": "managed", "type": "terraform_data", "name": name,
                "provider": "provider[\"terraform.io/builtin/terraform\"]",
                "instances": [{
                    "schema_version": 0,
                    "attributes": {"id": format!("id-{name}"), "input": null, "output": null, "triggers_replace": null},
                    "sensitive_attributes": [],
                }],
            })
        })
        .collect();
    serde_json::json!({
        "version": 4, "terraform_version": "1.11.4", "serial": serial, "lineage": lineage,
        "outputs": {}, "resources": resources, "check_results": null,
    })
    .to_string()
}

pub(crate) const LINEAGE: &str = "3f0c5a1e-0000-4000-8000-000000000001";
