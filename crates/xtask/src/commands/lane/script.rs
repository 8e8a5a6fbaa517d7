//! The commands, in the order of a state's life. The expected sequences are facts about terraform, not wishes.

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::Value;

use super::steps::{Ending, Lane};
use crate::terraform::{BACKEND, Directory};

/// Two resources and an output; `revision` changes one of them.
const MODULE: &str = r#"
variable "revision" {
  default = 1
}

resource "terraform_data" "web" {
  input = var.revision
}

resource "terraform_data" "db" {
  input = "db"
}

output "revision" {
  value = terraform_data.web.output
}
"#;

pub(crate) async fn run(lane: &mut Lane<'_>) -> Result<()> {
    let directory = lane.directory("lane")?;
    directory.write("main.tf", MODULE)?;
    first_apply(lane, &directory).await?;
    changes(lane, &directory).await?;
    reads(lane, &directory).await?;
    state_surgery(lane, &directory).await?;
    pushes(lane, &directory).await?;
    locks(lane, &directory).await?;
    remote_state(lane).await?;
    lane.done(&directory, "destroy -auto-approve", "L G P U")
        .await?;
    lane.done(&directory, "destroy -auto-approve", "L G U")
        .await?;
    pushes_to_nothing(lane).await?;
    migrations(lane).await
}

async fn first_apply(lane: &mut Lane<'_>, directory: &Directory) -> Result<()> {
    lane.done(directory, "init", "G404").await?;
    lane.done(directory, "init -reconfigure", "G404").await?;
    lane.done(directory, "validate", "").await?;
    lane.done(directory, "get", "").await?;
    lane.done(directory, "workspace show", "").await?;
    lane.refused(directory, "workspace new other", "").await?;
    lane.done(directory, "plan", "L G404 U").await?;
    lane.done(directory, "apply -auto-approve", "L G404 G404 P U")
        .await?;
    lane.done(directory, "init", "G").await?;
    Ok(())
}

async fn changes(lane: &mut Lane<'_>, directory: &Directory) -> Result<()> {
    lane.done(directory, "plan", "L G U").await?;
    lane.done(directory, "plan -lock=false", "G").await?;
    lane.done(directory, "plan -refresh-only", "L G U").await?;
    lane.done(directory, "apply -auto-approve", "L G U").await?;
    lane.done(directory, "apply -auto-approve -var=revision=2", "L G P U")
        .await?;
    lane.done(directory, "plan -out=saved -var=revision=1", "L G U")
        .await?;
    lane.done(directory, "apply saved", "L G P U").await?;
    lane.done(directory, "plan -out=stale -var=revision=4", "L G U")
        .await?;
    lane.done(
        directory,
        "apply -auto-approve -lock=false -var=revision=5",
        "G P",
    )
    .await?;
    lane.refused(directory, "apply stale", "L G U").await?;
    lane.done(directory, "apply -auto-approve", "L G P U")
        .await?;
    lane.done(directory, "refresh", "L G U").await?;
    Ok(())
}

async fn reads(lane: &mut Lane<'_>, directory: &Directory) -> Result<()> {
    lane.done(directory, "show", "G").await?;
    lane.done(directory, "output", "G").await?;
    lane.done(directory, "state list", "G").await?;
    lane.done(directory, "state show terraform_data.db", "G G")
        .await?;
    lane.done(directory, "state pull", "G").await?;
    lane.done(directory, "providers", "G").await?;
    lane.done(directory, "providers schema -json", "G").await?;
    lane.done(directory, "graph", "G").await?;
    let value = lane
        .step(
            directory,
            "console",
            "terraform_data.db.output\n",
            "L G U",
            Ending::Done,
        )
        .await?;
    ensure!(
        value.stdout.contains("\"db\""),
        "console answered {}",
        value.stdout
    );
    Ok(())
}

async fn state_surgery(lane: &mut Lane<'_>, directory: &Directory) -> Result<()> {
    lane.done(directory, "taint terraform_data.db", "L G P U")
        .await?;
    lane.done(directory, "untaint terraform_data.db", "L G P U")
        .await?;
    lane.done(
        directory,
        "state mv terraform_data.db terraform_data.store",
        "L G P U",
    )
    .await?;
    lane.done(
        directory,
        "state mv terraform_data.store terraform_data.db",
        "L G P U",
    )
    .await?;
    directory.write(
        "imported.tf",
        "resource \"terraform_data\" \"imported\" {}\n",
    )?;
    lane.done(
        directory,
        "import terraform_data.imported some-id",
        "L G P U",
    )
    .await?;
    lane.done(directory, "state rm terraform_data.imported", "L G P U")
        .await?;
    directory.remove("imported.tf")?;
    let line = "state replace-provider -auto-approve hashicorp/absent hashicorp/other";
    lane.done(directory, line, "L G U").await?;
    Ok(())
}

async fn pushes(lane: &mut Lane<'_>, directory: &Directory) -> Result<()> {
    let pulled = directory.run_ok(&["state", "pull"]).await?.stdout;
    let mut document: Value = serde_json::from_str(&pulled)?;
    let serial = document["serial"]
        .as_u64()
        .context("a state without a serial")?;
    let mut write = |file, serial| -> Result<()> {
        document["serial"] = Value::from(serial);
        directory.write(file, &serde_json::to_string_pretty(&document)?)
    };
    write("higher.tfstate", serial + 5)?;
    write("older.tfstate", 1)?;
    directory.write("same.tfstate", &pulled)?;

    lane.done(directory, "state push same.tfstate", "L G U")
        .await?;
    lane.done(directory, "state push higher.tfstate", "L G P U")
        .await?;
    lane.refused(directory, "state push older.tfstate", "L G U")
        .await?;
    lane.done(directory, "state push -force older.tfstate", "L G P U")
        .await?;
    lane.done(directory, "plan", "L G U").await?;
    Ok(())
}

async fn locks(lane: &mut Lane<'_>, directory: &Directory) -> Result<()> {
    let lock_id = "5d3e4a0c-0000-4000-8000-000000000001";
    hold_lock(lane, lock_id).await?;
    let refused = lane.refused(directory, "plan", "L423").await?;
    ensure!(
        refused.stderr.contains(lock_id),
        "terraform does not say whose lock it is: {}",
        refused.stderr
    );
    lane.done(directory, "plan -lock=false", "G").await?;
    lane.done(directory, &format!("force-unlock -force {lock_id}"), "U")
        .await?;
    lane.done(directory, "plan", "L G U").await?;
    Ok(())
}

/// Locks the state as another terraform would, and leaves it locked.
async fn hold_lock(lane: &Lane<'_>, lock_id: &str) -> Result<()> {
    let backend = lane.backend("lane");
    let info = serde_json::json!({
        "ID": lock_id,
        "Operation": "OperationTypeApply",
        "Info": "",
        "Who": "ann@laptop",
        "Version": "1.11.4",
        "Created": "2026-01-02T03:04:05.000000006Z",
        "Path": "",
    });
    let answer = reqwest::Client::new()
        .request(Method::from_bytes(b"LOCK")?, &backend.address)
        .basic_auth("token", Some(&backend.token))
        .json(&info)
        .send()
        .await?;
    ensure!(answer.status() == 200, "LOCK answered {}", answer.status());
    Ok(())
}

async fn remote_state(lane: &mut Lane<'_>) -> Result<()> {
    let backend = lane.backend("lane");
    let consumer = lane.terraform.directory(None)?;
    consumer.write(
        "main.tf",
        &format!(
            r#"
data "terraform_remote_state" "lane" {{
  backend = "http"
  config = {{
    address  = "{}"
    username = "token"
    password = "{}"
  }}
}}

output "revision" {{
  value = data.terraform_remote_state.lane.outputs.revision
}}
"#,
            backend.address, backend.token
        ),
    )?;
    lane.done(&consumer, "init", "").await?;
    lane.done(&consumer, "plan", "G").await?;
    lane.done(&consumer, "apply -auto-approve", "G").await?;
    Ok(())
}

/// Into an empty state every push is a first write: terraform itself drops the file's lineage and serial.
async fn pushes_to_nothing(lane: &mut Lane<'_>) -> Result<()> {
    for (state, push) in [
        ("pushed", "state push some.tfstate"),
        ("pushed-by-force", "state push -force some.tfstate"),
    ] {
        let directory = lane.directory(state)?;
        directory.write("some.tfstate", SOME_STATE)?;
        lane.done(&directory, "init", "G404").await?;
        lane.done(&directory, push, "L G404 G404 P U").await?;
        lane.done(&directory, "state list", "G").await?;
    }
    Ok(())
}

async fn migrations(lane: &mut Lane<'_>) -> Result<()> {
    let mut directory = lane.terraform.directory(None)?;
    directory.write("main.tf", MODULE)?;
    lane.done(&directory, "init", "").await?;
    lane.done(&directory, "apply -auto-approve", "").await?;

    directory.use_backend(lane.backend("moved"));
    directory.write("backend.tf", BACKEND)?;
    lane.done(
        &directory,
        "init -migrate-state -force-copy",
        "G404 L G404 G404 P U G",
    )
    .await?;
    directory.remove("backend.tf")?;
    lane.done(&directory, "init -migrate-state -force-copy", "G L G U")
        .await?;
    directory.write("backend.tf", BACKEND)?;
    lane.done(&directory, "init -migrate-state -force-copy", "G G")
        .await?;
    lane.done(&directory, "plan", "L G U").await?;
    Ok(())
}

const SOME_STATE: &str = r#"{
  "version": 4,
  "terraform_version": "1.11.4",
  "serial": 41,
  "lineage": "0f2c8f6e-6f0e-4b1a-9c1e-2f4f7f8a9b0c",
  "outputs": {},
  "resources": [
    {
      "mode": "managed",
      "type": "terraform_data",
      "name": "one",
      "provider": "provider[\"terraform.io/builtin/terraform\"]",
      "instances": [
        {
          "schema_version": 0,
          "attributes": {
            "id": "c2b6b9a0-0000-4000-8000-000000000001",
            "input": null,
            "output": null,
            "triggers_replace": null
          },
          "sensitive_attributes": []
        }
      ]
    }
  ],
  "check_results": null
}
"#;
