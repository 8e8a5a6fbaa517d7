//! The states that are measured with: made once by the generator, then changed here.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use md5::{Digest as _, Md5};
use tempfile::TempDir;
use tfstate::{Document, Instance};
use tokio::process::Command;

use crate::host::foreground;
use crate::host::workspace::Workspace;

/// What an instance of the generated states weighs, in bytes.
const INSTANCE_BYTES: usize = 2_249;

/// A document on its way to the service, with the digest that Terraform sends along.
#[derive(Clone, Debug)]
pub(super) struct Posted {
    pub(super) bytes: Bytes,
    pub(super) md5: String,
}

impl From<Vec<u8>> for Posted {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            md5: BASE64_STANDARD.encode(Md5::digest(&bytes)),
            bytes: bytes.into(),
        }
    }
}

/// Generated documents, kept in a directory of their own until the bench ends.
#[derive(Debug)]
pub(super) struct Documents {
    generator: PathBuf,
    corpus: PathBuf,
    kept: TempDir,
}

impl Documents {
    pub(super) fn new(workspace: &Workspace) -> Result<Self> {
        let corpus = workspace.shared_dir().join("corpus");
        let generator = corpus.join("gen_state.py");
        ensure!(
            generator.exists(),
            "{} does not exist; KL_SHARED_DIR names where the shared inputs are",
            generator.display()
        );
        let kept = tempfile::Builder::new()
            .prefix("klbench.")
            .tempdir()
            .context("cannot create a temporary directory")?;
        Ok(Self {
            generator,
            corpus,
            kept,
        })
    }

    /// Where the real states are.
    pub(super) fn corpus_states(&self) -> PathBuf {
        self.corpus.join("states")
    }

    /// A root module of about so many instances that teams share, and its state. In a directory of its own each time.
    pub(super) async fn configuration(&self, instances: usize) -> Result<Generated> {
        let dir = tempfile::Builder::new()
            .prefix("klconfiguration.")
            .tempdir_in(self.kept.path())?;
        let generated = Generated {
            directory: dir.path().join("root"),
            state: dir.path().join("state.json"),
            _dir: dir,
        };
        let mut python = Command::new("python3");
        python
            .arg(&self.generator)
            .args(["--profile", "terraform_data", "--instances"])
            .arg(instances.to_string())
            .arg("--config")
            .arg(&generated.directory)
            .arg("--out")
            .arg(&generated.state);
        let made = foreground::output(python).await;
        made.context("the configurations are made by python3")?;
        Ok(generated)
    }

    /// A state of about so many bytes.
    pub(super) async fn of_megabytes(&self, megabytes: usize) -> Result<Vec<u8>> {
        self.of_instances(megabytes * 1_000_000 / INSTANCE_BYTES)
            .await
    }

    /// A state of so many instances.
    pub(super) async fn of_instances(&self, instances: usize) -> Result<Vec<u8>> {
        let path = self.kept.path().join(format!("{instances}.tfstate"));
        if !path.exists() {
            let mut python = Command::new("python3");
            python
                .arg(&self.generator)
                .args(["--instances", &instances.to_string(), "--out"])
                .arg(&path);
            let made = foreground::output(python).await;
            made.context("the states are made by python3")?;
        }
        std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    }
}

/// A generated configuration and the state that it has.
#[derive(Debug)]
pub(super) struct Generated {
    pub(super) directory: PathBuf,
    pub(super) state: PathBuf,
    _dir: TempDir,
}

/// Which instances of a document to change: every so manyth, beginning with `first`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) every: usize,
    pub(super) first: usize,
}

impl Change {
    /// One in a hundred, other ones each round, as successive applies change other resources.
    pub(super) fn one_percent(round: usize) -> Self {
        Self {
            every: 100,
            first: round % 100,
        }
    }

    /// One instance.
    pub(super) fn one(round: usize) -> Self {
        Self {
            every: usize::MAX,
            first: round,
        }
    }
}

/// The document with one character of one attribute replaced in each of the chosen instances, and the next serial.
pub(super) fn changed(document: &[u8], change: Change) -> Result<Vec<u8>> {
    let Document::State(state) = tfstate::parse(document)? else {
        anyhow::bail!("the generator made no state");
    };
    let chosen = state
        .instances
        .iter()
        .skip(change.first)
        .step_by(change.every);
    let places: Vec<usize> = chosen
        .filter_map(|instance| replaceable(document, instance))
        .collect();
    ensure!(!places.is_empty(), "no instance can be changed");
    let mut next = tfstate::with_serial(document, state.serial + 1).context("no serial")?;
    // The serial stands before the resources, and may have grown by a digit.
    let grown = next.len() - document.len();
    for place in places {
        next[place + grown] = other(next[place + grown]);
    }
    Ok(next)
}

/// Where in the document the first character of the instance's first text attribute stands.
fn replaceable(document: &[u8], instance: &Instance<'_>) -> Option<usize> {
    let body = &*instance.body;
    let begins = (body.as_ptr() as usize).checked_sub(document.as_ptr() as usize)?;
    let attributes = find(body, b"\"attributes\": {")?;
    let mut from = attributes;
    loop {
        from += find(&body[from..], b"\": \"")? + 4;
        if body.get(from)?.is_ascii_alphanumeric() {
            return Some(begins + from);
        }
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len())
        .position(|window| window == wanted)
}

/// Another character of the same kind.
fn other(character: u8) -> u8 {
    match character {
        b'9' => b'0',
        b'z' => b'a',
        b'Z' => b'A',
        other => other + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: &str = r#"{
  "version": 4,
  "terraform_version": "1.11.4",
  "serial": 9,
  "lineage": "l",
  "outputs": {},
  "resources": [
    {
      "mode": "managed",
      "type": "terraform_data",
      "name": "a",
      "provider": "provider[\"terraform.io/builtin/terraform\"]",
      "instances": [
        {
          "schema_version": 0,
          "attributes": {
            "id": "zz9"
          }
        }
      ]
    }
  ],
  "check_results": null
}
"#;

    #[test]
    fn a_change_replaces_one_character_and_counts_the_serial_on() {
        let next = changed(STATE.as_bytes(), Change::one(0)).unwrap();
        let expected = STATE.replace("zz9", "az9").replace("l\": 9", "l\": 10");
        assert_eq!(String::from_utf8(next).unwrap(), expected);
        assert!(changed(STATE.as_bytes(), Change::one(1)).is_err());
    }
}
