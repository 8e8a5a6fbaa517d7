//! A root module on a state of its own, worked on by kl and by plain Terraform.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::harness::Done;
use crate::stack::{Project, stack};

const BACKEND: &str = "terraform {\n  backend \"http\" {}\n}\n";

/// Address to actions, as a plan in JSON names them.
pub(super) type Changes = BTreeMap<String, String>;

pub(super) struct Site(pub(super) Project);

impl Site {
    /// A root module with these files and an http backend that leaves its attributes open.
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        let site = Self(Project::new());
        site.write("backend.tf", BACKEND);
        for (name, text) in files {
            site.write(name, text);
        }
        site
    }

    /// The same files on the same state, in a directory of somebody else.
    pub(super) fn colleague(&self) -> Self {
        let site = Self(self.0.as_token(&stack("TOKEN")));
        for (name, bytes) in self.tree() {
            if name != ".kl.toml" && !name.starts_with(".terraform") {
                site.write_bytes(&name, &bytes);
            }
        }
        site
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        self.write_bytes(name, text.as_bytes());
    }

    fn write_bytes(&self, name: &str, bytes: &[u8]) {
        let path = self.0.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    pub(super) fn remove(&self, name: &str) {
        std::fs::remove_file(self.0.path(name)).unwrap();
    }

    pub(super) fn kl(&self, arguments: &[&str]) -> Done {
        self.0.kl(arguments)
    }

    /// `kl apply` of a selection that must work.
    #[track_caller]
    pub(super) fn apply(&self, selection: &[&str]) -> Done {
        let mut arguments = vec!["apply", "--auto-approve", "--confirm-scope"];
        arguments.extend(selection);
        self.kl(&arguments).expect(0)
    }

    /// A command of kl that goes on while the test does.
    pub(super) fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = self.0.kl_command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Plain Terraform over the http lane, in a data directory of its own.
    pub(super) fn terraform_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.0.command("terraform");
        let url = self.0.url();
        command
            .args(arguments)
            .env("TF_DATA_DIR", self.data_dir())
            .env("TF_HTTP_ADDRESS", &url)
            .env("TF_HTTP_LOCK_ADDRESS", &url)
            .env("TF_HTTP_UNLOCK_ADDRESS", &url)
            .env("TF_HTTP_USERNAME", "kl")
            .env("TF_HTTP_PASSWORD", stack("TOKEN"));
        command
    }

    /// Outside the root module, so that its files stay as they are.
    fn data_dir(&self) -> PathBuf {
        std::env::temp_dir().join(format!("plain-{}", self.0.state))
    }

    pub(super) fn terraform(&self, arguments: &[&str]) -> Output {
        let init = ["init", "-input=false", "-no-color"];
        let done = self.terraform_command(&init).output().unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        self.terraform_command(arguments).output().unwrap()
    }

    /// Plain Terraform that must work.
    #[track_caller]
    pub(super) fn terraform_ok(&self, arguments: &[&str]) -> String {
        let done = self.terraform(arguments);
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        String::from_utf8(done.stdout).unwrap()
    }

    /// What a plan of the whole state changes.
    pub(super) fn full_plan(&self, flags: &[&str]) -> Changes {
        let file = self.data_dir().join("full.plan");
        let out = format!("-out={}", file.display());
        let mut arguments = vec!["plan", "-input=false", "-no-color", &out];
        arguments.extend(flags);
        self.terraform_ok(&arguments);
        let shown = self.terraform_ok(&["show", "-json", file.to_str().unwrap()]);
        changes(&serde_json::from_str(&shown).unwrap())
    }

    /// The attribute values of an instance in the state.
    pub(super) fn input_of(&self, address: &str) -> Value {
        self.0.json(&["show", address])["attributes"]["input"]["value"].clone()
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        let listed = self.0.json(&["state", "list"]);
        let resources = listed["resources"].as_array().unwrap();
        let address = |resource: &Value| resource["address"].as_str().unwrap().to_owned();
        resources.iter().map(address).collect()
    }

    /// Every file below the directory with its content.
    pub(super) fn tree(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let root = self.0.path("");
        collect(&root, &root, &mut files);
        files
    }

    /// How many runs are under way.
    pub(super) fn runs(&self) -> usize {
        let status = self.kl(&["status", "--json"]).stdout();
        // Before anything was begun there is no state to tell of.
        let status: Value = serde_json::from_str(&status).unwrap_or_default();
        status["runs"].as_array().map_or(0, Vec::len)
    }

    /// How many wait for a part of the state.
    pub(super) fn waiters(&self) -> usize {
        let status = self.kl(&["status", "--json"]).stdout();
        let status: Value = serde_json::from_str(&status).unwrap_or_default();
        status["waiting"].as_array().map_or(0, Vec::len)
    }

    /// Waits until a condition holds.
    #[track_caller]
    pub(super) fn until(&self, what: &str, condition: impl Fn() -> bool) {
        for _ in 0..600 {
            if condition() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("{what} did not come about within a minute");
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // It may never have been made.
        _ = std::fs::remove_dir_all(self.data_dir());
    }
}

fn collect(root: &Path, directory: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let name = path
                .strip_prefix(root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            files.insert(name, std::fs::read(&path).unwrap());
        }
    }
}

/// The changes of a plan in JSON that are more than nothing.
pub(super) fn changes(plan: &Value) -> Changes {
    let mut changes = Changes::new();
    for change in plan["resource_changes"].as_array().into_iter().flatten() {
        let actions = change["change"]["actions"].to_string();
        let previous = change["previous_address"].as_str();
        let importing = !change["change"]["importing"].is_null();
        if actions == "[\"no-op\"]" && previous.is_none() && !importing || actions == "[\"read\"]" {
            continue;
        }
        let address = change["address"].as_str().unwrap().to_owned();
        let key = match change["deposed"].as_str() {
            Some(deposed) => format!("{address}|{deposed}"),
            None => address,
        };
        changes.insert(key, format!("{actions}{}", previous.unwrap_or_default()));
    }
    changes
}

/// What ran in the background, when it is over.
pub(super) fn done(child: Child) -> Done {
    Done(child.wait_with_output().unwrap())
}
