//! A private data directory that leads Terraform to another http backend.
//!
//! Terraform believes the backend configuration stored in its data directory as long as the hash
//! beside it is that of the block in the files. So the user's record gives the hash, and everything
//! else in it is ours: every attribute is set, because what is null would be filled from the block
//! or from the environment. Where the user has no record, one `init` without any download makes it.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use config_scope::{Configuration, LocalModule};
use protocol::RunId;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::left;
use crate::failure::{Failure, Result};
use crate::secret::Secret;

/// Terraform's own waits between tries go up to 5 s here: with these it survives minutes without
/// the service, as a restart takes.
const RETRY_MAX: u32 = 60;
const RETRY_WAIT_MAX_SECONDS: u32 = 5;

/// Where Terraform is to find its state.
#[derive(Debug, Clone)]
pub(crate) struct Redirection {
    pub(crate) address: String,
    pub(crate) username: String,
    pub(crate) password: Secret,
}

/// The directory; it is removed when the value goes.
#[derive(Debug)]
pub(crate) struct DataDir {
    directory: TempDir,
    /// Held by this process and those that it starts.
    _lock: File,
    /// Whether the backend was taken from the user's record, so that no `init` is needed.
    is_ready: bool,
    /// The user's installed providers, if any.
    providers: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Record {
    backend: Option<Backend>,
}

#[derive(Deserialize)]
struct Backend {
    r#type: String,
    hash: u64,
    #[serde(default)]
    config: Value,
}

impl DataDir {
    /// Makes one for the root module in `root`, whose own data directory is `users`.
    pub(crate) fn create(
        root: &Path,
        users: &Path,
        configuration: &Configuration,
        to: &Redirection,
    ) -> Result<Self> {
        left::sweep(&std::env::temp_dir());
        let users = root.join(users);
        let directory = tempfile::Builder::new()
            .prefix(left::PREFIX)
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(|error| {
                Failure::from(error).context("could not make a private data directory")
            })?;
        let path = directory.path();
        let lock = left::claim(path)?;
        let providers = users.join("providers").canonicalize().ok();
        if let Some(providers) = &providers {
            std::os::unix::fs::symlink(providers, path.join("providers"))?;
        }
        fs::create_dir(path.join("modules"))?;
        let manifest = manifest(&users, &configuration.local_modules())?;
        private(&path.join("modules/modules.json"), manifest.as_bytes())?;
        let record = read_record(&users);
        let is_ready = record.is_some();
        if let Some(record) = record {
            let stored = json!({
                "version": 3,
                "terraform_version": "1.5.0",
                "backend": {"type": "http", "config": attributes(to, &record.config), "hash": record.hash},
            });
            private(
                &path.join("terraform.tfstate"),
                stored.to_string().as_bytes(),
            )?;
        }
        let created = Self {
            directory,
            _lock: lock,
            is_ready,
            providers,
        };
        created.write_backend_file(to)?;
        Ok(created)
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Keeps the directory when the value goes, until the run is ended.
    ///
    /// # Errors
    /// I/O failures.
    pub(crate) fn leave(self, run: &RunId) -> Result<PathBuf> {
        left::leave_for(self.path(), run)?;
        Ok(self.directory.keep())
    }

    /// Whether Terraform can work with it as it is.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// The arguments of an `init` that takes the backend from here and downloads nothing.
    ///
    /// # Errors
    /// I/O failures.
    pub(crate) fn init_arguments(&mut self) -> Result<Vec<String>> {
        // Terraform installs into `providers`, and must not do so through the link.
        let link = self.path().join("providers");
        if link.is_symlink() {
            fs::remove_file(link)?;
        }
        let plugins = match &self.providers {
            Some(providers) => providers.clone(),
            None => {
                let none = self.file("no-providers");
                fs::create_dir_all(&none)?;
                none
            }
        };
        self.is_ready = true;
        Ok(vec![
            "init".to_owned(),
            "-input=false".to_owned(),
            "-no-color".to_owned(),
            "-reconfigure".to_owned(),
            "-get=false".to_owned(),
            "-lockfile=readonly".to_owned(),
            format!("-plugin-dir={}", plugins.display()),
            format!("-backend-config={}", self.file("backend.hcl").display()),
        ])
    }

    fn write_backend_file(&self, to: &Redirection) -> Result<()> {
        let mut text = String::new();
        if let Value::Object(members) = attributes(to, &Value::Null) {
            for (name, value) in members {
                text.push_str(&format!("{name} = {value}\n"));
            }
        }
        private(&self.file("backend.hcl"), text.as_bytes())
    }
}

/// Every attribute of the http backend. TLS ones are the user's own, the rest leads to `to`.
fn attributes(to: &Redirection, users: &Value) -> Value {
    let kept = |name: &str, default: Value| match users.get(name) {
        None | Some(Value::Null) => default,
        Some(value) => value.clone(),
    };
    json!({
        "address": to.address,
        "lock_address": to.address,
        "unlock_address": to.address,
        "update_method": "POST",
        "lock_method": "LOCK",
        "unlock_method": "UNLOCK",
        "username": to.username,
        "password": to.password.expose(),
        "skip_cert_verification": kept("skip_cert_verification", Value::Bool(false)),
        "retry_max": RETRY_MAX,
        "retry_wait_min": 1,
        "retry_wait_max": RETRY_WAIT_MAX_SECONDS,
        "client_ca_certificate_pem": kept("client_ca_certificate_pem", "".into()),
        "client_certificate_pem": kept("client_certificate_pem", "".into()),
        "client_private_key_pem": kept("client_private_key_pem", "".into()),
    })
}

/// What `terraform init` left of an http backend; anything else is of no use.
fn read_record(users: &Path) -> Option<Backend> {
    let bytes = fs::read(users.join("terraform.tfstate")).ok()?;
    let record: Record = serde_json::from_slice(&bytes).ok()?;
    record.backend.filter(|backend| backend.r#type == "http")
}

/// The user's module manifest with the local modules that it does not know yet: these need no
/// installing, and Terraform wants them listed.
fn manifest(users: &Path, local: &[LocalModule]) -> Result<String> {
    let bytes = fs::read(users.join("modules/modules.json")).unwrap_or_default();
    let mut records: Vec<Value> = serde_json::from_slice::<Value>(&bytes)
        .ok()
        .and_then(|document| Some(document.get("Modules")?.as_array()?.clone()))
        .unwrap_or_default();
    let mut put = |key: &str, source: &str, directory: &str| {
        records.retain(|record| record["Key"] != key);
        records.push(json!({"Key": key, "Source": source, "Dir": directory}));
    };
    put("", "", ".");
    for module in local {
        put(&module.key, &module.source, module.directory.as_str());
    }
    serde_json::to_string(&json!({ "Modules": records }))
        .map_err(|error| Failure::new(crate::failure::Kind::Failed, error))
}

fn private(path: &Path, contents: &[u8]) -> Result<()> {
    let mut options = File::options();
    options.write(true).create_new(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(contents)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use config_scope::{MemoryTree, SourcePath};

    fn redirection() -> Redirection {
        Redirection {
            address: "http://127.0.0.1:1/v1/runs/r/state".to_owned(),
            username: "run".to_owned(),
            password: Secret::new("p"),
        }
    }

    fn configuration() -> Configuration {
        let mut tree = MemoryTree::new();
        tree.insert("main.tf", "module \"m\" {\n source = \"./m\"\n}\n");
        tree.insert("m/main.tf", "resource \"t\" \"x\" {}\n");
        Configuration::load(&tree).unwrap()
    }

    #[test]
    fn no_attribute_is_left_open_and_tls_stays_the_users() {
        let users = json!({"client_ca_certificate_pem": "PEM", "unlock_method": "POST", "password": "theirs", "skip_cert_verification": null});
        let Value::Object(members) = attributes(&redirection(), &users) else {
            panic!("no object");
        };
        assert_eq!(members.len(), 15);
        assert!(members.values().all(|value| !value.is_null()));
        assert_eq!(members["client_ca_certificate_pem"], "PEM");
        assert_eq!(members["unlock_method"], "UNLOCK");
        assert_eq!(members["password"], "p");
    }

    #[test]
    fn it_is_private_and_goes_away() {
        let root = tempfile::tempdir().unwrap();
        let users = root.path().join(".terraform");
        fs::create_dir(&users).unwrap();
        let record = json!({"version": 3, "backend": {"type": "http", "config": {}, "hash": 7}});
        fs::write(users.join("terraform.tfstate"), record.to_string()).unwrap();
        let created = DataDir::create(
            root.path(),
            Path::new(".terraform"),
            &configuration(),
            &redirection(),
        )
        .unwrap();
        assert!(created.is_ready());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let path = created.path().to_owned();
        assert_eq!(mode(&path), 0o700);
        assert_eq!(mode(&path.join("terraform.tfstate")), 0o600);
        assert_eq!(mode(&path.join("backend.hcl")), 0o600);
        let stored: Value =
            serde_json::from_slice(&fs::read(path.join("terraform.tfstate")).unwrap()).unwrap();
        assert_eq!(stored["backend"]["hash"], 7);
        drop(created);
        assert!(!path.exists());
    }

    #[test]
    fn the_manifest_keeps_what_was_installed_and_knows_local_modules() {
        let users = tempfile::tempdir().unwrap();
        fs::create_dir(users.path().join("modules")).unwrap();
        let installed = json!({"Modules": [
            {"Key": "", "Source": "", "Dir": "."},
            {"Key": "g", "Source": "registry/x/y", "Version": "1.0.0", "Dir": ".terraform/modules/g"},
        ]});
        fs::write(
            users.path().join("modules/modules.json"),
            installed.to_string(),
        )
        .unwrap();
        let local = [LocalModule {
            key: "m".to_owned(),
            source: "./m".to_owned(),
            directory: SourcePath::new("m"),
        }];
        let written: Value =
            serde_json::from_str(&manifest(users.path(), &local).unwrap()).unwrap();
        let keys: Vec<_> = written["Modules"]
            .as_array()
            .unwrap()
            .iter()
            .map(|record| record["Key"].as_str().unwrap())
            .collect();
        assert_eq!(keys, ["g", "", "m"]);
    }
}
