//! A configuration that teams share, one file each, and the state that it has once it is applied.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// How many team files there are, whatever the size.
pub(super) const TEAMS: usize = 100;
/// Resource blocks of a team beside its base.
const BLOCKS: usize = 9;

/// How many instances each repeated block of a team has, so that all teams have `size` between them.
fn repeated(size: usize) -> usize {
    (size / TEAMS - 1) / BLOCKS
}

/// How many instances the state has.
pub(super) fn instance_count(size: usize) -> usize {
    TEAMS * (1 + BLOCKS * repeated(size))
}

pub(super) fn file_name(team: usize) -> String {
    format!("team_{team:03}.tf")
}

/// The resource blocks of a team.
pub(super) fn blocks(team: usize) -> Vec<String> {
    let block = |block| format!("terraform_data.team_{team:03}_{block}");
    std::iter::once(format!("terraform_data.team_{team:03}_base"))
        .chain((0..BLOCKS).map(block))
        .collect()
}

/// The file of a team. A changed one has another value in every instance.
pub(super) fn file(team: usize, size: usize, text: &str) -> String {
    let mut file = format!(
        "resource \"terraform_data\" \"team_{team:03}_base\" {{\n  input = \"{text}\"\n}}\n"
    );
    for block in 0..BLOCKS {
        let count = repeated(size);
        let _ = write!(
            file,
            "\nresource \"terraform_data\" \"team_{team:03}_{block}\" {{\n  count = {count}\n  input = \
             \"{text} ${{terraform_data.team_{team:03}_base.id}} ${{count.index}}\"\n}}\n"
        );
    }
    file
}

/// The state after the configuration was applied with this text.
pub(super) fn state(size: usize, text: &str) -> Value {
    let mut resources = Vec::new();
    for team in 0..TEAMS {
        let base = format!("base-{team}");
        let plain = json!([instance(&base, text, None, &[])]);
        // In Terraform's order: digits before letters.
        for block in 0..BLOCKS {
            let dependencies = [format!("terraform_data.team_{team:03}_base")];
            let instances: Vec<Value> = (0..repeated(size))
                .map(|index| {
                    let id = format!("{team}-{block}-{index}");
                    let input = format!("{text} {base} {index}");
                    instance(&id, &input, Some(index), &dependencies)
                })
                .collect();
            resources.push(resource(
                &format!("team_{team:03}_{block}"),
                json!(instances),
            ));
        }
        resources.push(resource(&format!("team_{team:03}_base"), plain));
    }
    json!({
        "version": 4,
        "terraform_version": "1.11.4",
        "serial": 1,
        "lineage": "00000000-0000-4000-8000-000000000000",
        "outputs": {},
        "resources": resources,
        "check_results": null,
    })
}

fn resource(name: &str, instances: Value) -> Value {
    json!({
        "mode": "managed",
        "type": "terraform_data",
        "name": name,
        "provider": "provider[\"terraform.io/builtin/terraform\"]",
        "instances": instances,
    })
}

fn instance(id: &str, input: &str, index: Option<usize>, dependencies: &[String]) -> Value {
    let value = json!({ "value": input, "type": "string" });
    let mut instance = json!({
        "schema_version": 0,
        "attributes": { "id": id, "input": value, "output": value, "triggers_replace": null },
        "sensitive_attributes": [],
    });
    if let Some(index) = index {
        instance["index_key"] = json!(index);
    }
    if !dependencies.is_empty() {
        instance["dependencies"] = json!(dependencies);
    }
    instance
}
