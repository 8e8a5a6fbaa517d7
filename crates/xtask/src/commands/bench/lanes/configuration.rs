//! The generated configuration that teams share, one file each, and the state that it has once it is applied.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::super::documents::Generated;

/// The team whose file is planned.
const TEAM: &str = "d007";

/// What that file declares, as targets.
pub(super) fn targets() -> Vec<String> {
    [
        "terraform_data.d007_role",
        "module.d007_net",
        "module.d007_svc",
    ]
    .map(|address| format!("-target={address}"))
    .to_vec()
}

pub(super) fn file_name() -> String {
    format!("team_{TEAM}.tf")
}

/// Changes the roles of the team, an update in place of each.
pub(super) fn change(configuration: &Generated) -> Result<()> {
    let path = configuration.directory.join(file_name());
    let text = std::fs::read_to_string(&path).context("the generated configuration is another")?;
    let revision = "lookup(local.revs, \"d007/role/${each.key}\", 1)";
    let changed = text.replacen(revision, "1000", 1);
    ensure!(changed != text, "the generated team file is another");
    std::fs::write(&path, changed).context("the team file cannot be written")
}

/// Keeps what the team's file needs of a whole document.
pub(super) fn cut(document: &mut Value) -> Result<()> {
    let resources = document["resources"]
        .as_array_mut()
        .context("no resources")?;
    let module = format!("module.{TEAM}_");
    let root = format!("{TEAM}_");
    resources.retain(|one| match one["module"].as_str() {
        Some(path) => path.starts_with(&module),
        None => {
            let name = one["name"].as_str().unwrap_or_default();
            name.starts_with(&root) || name.starts_with("core_") || one["mode"] == "data"
        }
    });
    ensure!(!resources.is_empty(), "the slice is empty");
    Ok(())
}
