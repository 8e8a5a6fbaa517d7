//! `kl history`, `kl list`, `kl state list`, `kl show`.

use crate::harness::case_file;
use crate::stack::{LINEAGE, Project, document, stack};

/// What the real `terraform state list` prints for a document.
fn terraform_lists(project: &Project, name: &str) -> String {
    let done = project
        .command("terraform")
        .args(["state", "list", &format!("-state={name}")])
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap()
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn addresses_are_listed_as_terraform_lists_them_and_each_can_be_shown() {
    for name in [
        "keys-state.json",
        "module-provider.json",
        "last-instance.json",
    ] {
        let project = Project::new();
        project.import(case_file(name));
        project.file("local.tfstate", case_file(name));
        let listed = project.kl(&["state", "list"]).expect(0).stdout();
        assert_eq!(listed, terraform_lists(&project, "local.tfstate"), "{name}");

        let mut seen = std::collections::BTreeSet::new();
        for address in listed.lines() {
            let resource = project.json(&["show", address]);
            assert_eq!(resource["address"], address, "{name}");
            assert!(
                seen.insert(resource["attributes"]["id"].to_string()),
                "{name}: {address}"
            );
        }
    }
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn addresses_filter_the_list_as_in_terraform() {
    let project = Project::new();
    project.import(case_file("module-provider.json"));
    let all = project.kl(&["state", "list"]).expect(0).stdout();
    let below = project
        .kl(&["list", &project.state, "module.a"])
        .expect(0)
        .stdout();
    assert!(!below.is_empty() && below.len() < all.len(), "{below}");
    assert!(
        below.lines().all(|line| line.starts_with("module.a.")),
        "{below}"
    );
    project
        .kl(&["state", "list", "module.nowhere"])
        .expect(1)
        .says("holds nothing at module.nowhere");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn nul_and_lone_surrogates_are_listed_and_shown() {
    let project = Project::new();
    project.import(case_file("nul-and-surrogates.json"));
    let listed = project.kl(&["state", "list"]).expect(0).stdout();
    assert!(!listed.is_empty());
    project
        .kl(&["show", "terraform_data.nowhere"])
        .expect(1)
        .says("kl state list");
    for address in listed.lines() {
        let shown = project.kl(&["show", address]).expect(0).stdout();
        assert!(!shown.contains('\0'), "{shown:?}");
        project.kl(&["show", address, "--json"]).expect(0);
    }
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn an_encrypted_state_has_no_addresses_and_says_why() {
    let project = Project::new();
    project.import(case_file("encrypted-envelope.json"));
    let done = project.kl(&["state", "list"]).expect(1);
    assert!(done.stderr().contains("encrypted"), "{}", done.stderr());
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn sensitive_values_stay_masked_until_asked_for() {
    let project = Project::new();
    let mut state: serde_json::Value = serde_json::from_str(&document(1, LINEAGE, &["a"])).unwrap();
    state["resources"][0]["instances"][0]["attributes"]["input"] =
        serde_json::json!({"value": "mellon", "type": "string"});
    state["resources"][0]["instances"][0]["sensitive_attributes"] =
        serde_json::json!([[{"type": "get_attr", "value": "input"}]]);
    // What no parser reads as text stands beside it, and does not stand in its way.
    let state = state.to_string().replace(
        "\"triggers_replace\":null",
        "\"triggers_replace\":\"\\ud800\"",
    );
    project.import(state);

    let masked = project.kl(&["show", "terraform_data.a"]).expect(0);
    assert!(!masked.stdout().contains("mellon"), "{}", masked.stdout());
    assert!(masked.stdout().contains("id-a"), "{}", masked.stdout());
    masked.says("--sensitive");
    let json = project
        .kl(&["show", "terraform_data.a", "--json"])
        .expect(0)
        .stdout();
    assert!(!json.contains("mellon"), "{json}");

    let reader = project.as_token(&stack("READER_TOKEN"));
    let shown = reader
        .kl(&["show", "terraform_data.a", "--sensitive"])
        .expect(0)
        .stdout();
    assert!(shown.contains("mellon"), "{shown}");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn history_shows_an_emptied_state_and_who_wrote() {
    let project = Project::new();
    project.import(document(1, LINEAGE, &["a", "b"]));
    project.import(document(2, LINEAGE, &[]));
    let table = project.kl(&["history"]).expect(0).stdout();
    assert!(table.contains("2 -> 0"), "{table}");
    let versions = project.json(&["history", "--limit", "1"]);
    assert_eq!(versions["versions"].as_array().unwrap().len(), 1);
    assert_eq!(versions["versions"][0]["seq"], 2);
    project
        .kl(&["history", "--limit", "1"])
        .expect(0)
        .says("--limit 0");
    let all = project.json(&["history", "--limit", "0"]);
    assert_eq!(all["versions"].as_array().unwrap().len(), 2);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn the_states_of_the_environment_are_listed() {
    let project = Project::new();
    project.import(document(7, LINEAGE, &["a"]));
    let table = project.kl(&["list"]).expect(0).stdout();
    assert!(table.contains(&project.state), "{table}");
    let states = project.json(&["ls"]);
    let ours = states["states"]
        .as_array()
        .unwrap()
        .iter()
        .find(|state| state["name"] == project.state.as_str())
        .unwrap();
    assert_eq!(ours["serial"], 7);
    assert_eq!(ours["locked"], false);
}
