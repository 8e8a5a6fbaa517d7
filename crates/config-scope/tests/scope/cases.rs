//! The shared cases: what each folder declares and selects, and what Terraform says of it.

use std::collections::BTreeSet;

use config_scope::{
    Confidence, ConfigAddress, Configuration, DiskTree, FileRole, Selection, Selectors, SourcePath,
    Target,
};

use crate::{
    oracle::assert_agrees,
    support::shared::{copy, shared},
};

fn case(name: &str) -> Configuration {
    let folder = shared("cases/files").join(name);
    Configuration::load(&DiskTree::new(folder, ".terraform")).expect("a configuration")
}

fn address(text: &str) -> ConfigAddress {
    text.parse().expect("a config-level address")
}

fn select(configuration: &Configuration, files: &[&str], targets: &[&str]) -> Selection {
    configuration.select(&Selectors {
        files: files.iter().map(|file| SourcePath::new(file)).collect(),
        targets: targets
            .iter()
            .map(|target| target.parse().expect("a target"))
            .collect(),
    })
}

fn list(addresses: &BTreeSet<ConfigAddress>) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

fn plan_targets(selection: &Selection) -> Vec<String> {
    selection
        .write
        .targets
        .iter()
        .map(|plan| plan.target.to_string())
        .collect()
}

#[test]
fn every_case_folder_agrees_with_terraform() {
    for name in [
        "deps",
        "moved",
        "override",
        "hcl",
        "import-target",
        "vars",
        "partial-apply",
    ] {
        let directory = tempfile::tempdir().unwrap();
        copy(&shared("cases/files").join(name), directory.path());
        assert_agrees(name, directory.path());
    }
}

/// S34, as measured there.
#[test]
fn a_target_brings_what_it_needs_and_no_more() {
    let deps = case("deps");
    let one = |target| list(&select(&deps, &[], &[target]).closure);
    assert_eq!(
        one("module.m"),
        [
            "terraform_data.by_local",
            "terraform_data.gate",
            "terraform_data.many",
            "terraform_data.root",
            "module.m.terraform_data.inner",
        ]
    );
    assert_eq!(
        one("terraform_data.after_module"),
        ["terraform_data.after_module", "terraform_data.gate"]
    );
    assert_eq!(
        one("terraform_data.one_of_many"),
        [
            "terraform_data.by_local",
            "terraform_data.many",
            "terraform_data.one_of_many",
            "terraform_data.root",
        ]
    );
    assert_eq!(
        one("terraform_data.checked"),
        ["terraform_data.checked", "terraform_data.gate"]
    );
    assert_eq!(
        one("terraform_data.many[\"x\"]"),
        [
            "terraform_data.by_local",
            "terraform_data.many",
            "terraform_data.root"
        ]
    );
    assert_eq!(
        select(&deps, &[], &["terraform_data.root"]).confidence,
        Confidence::Safe
    );
}

#[test]
fn an_unknown_target_is_told_with_what_it_may_have_meant() {
    let deps = case("deps");
    let selection = select(
        &deps,
        &[],
        &["terraform_data.one_of_man", "terraform_data.gate"],
    );
    assert_eq!(selection.unmatched.len(), 1);
    assert_eq!(selection.unmatched[0].near[0], "terraform_data.one_of_many");
    assert_eq!(list(&selection.write.addresses), ["terraform_data.gate"]);
    assert_eq!(list(&selection.write.former), ["terraform_data.one_of_man"]);
}

/// S33.
#[test]
fn a_moved_block_brings_both_ends() {
    let moved = case("moved");
    let unrelated = select(&moved, &[], &["terraform_data.a"]);
    assert!(unrelated.moves.is_empty());
    assert_eq!(plan_targets(&unrelated), ["terraform_data.a"]);
    for selection in [
        select(&moved, &[], &["terraform_data.b2"]),
        select(&moved, &["renames.tf"], &[]),
        select(&moved, &[], &["terraform_data.b"]),
    ] {
        assert_eq!(list(&selection.write.addresses), ["terraform_data.b2"]);
        assert_eq!(list(&selection.write.former), ["terraform_data.b"]);
        let targets: BTreeSet<String> = plan_targets(&selection).into_iter().collect();
        assert_eq!(
            targets,
            ["terraform_data.b", "terraform_data.b2"]
                .map(String::from)
                .into()
        );
        assert!(selection.moves[0].in_write_set);
        assert!(selection.unmatched.is_empty());
    }
}

/// S36.
#[test]
fn override_files_count_as_terraform_merges_them() {
    let over = case("override");
    let web = over.find_node(&address("terraform_data.web")).unwrap();
    assert_eq!(web.at.to_string(), "main.tf:9");
    assert_eq!(web.overridden_at[0].to_string(), "x_override.tf:1");
    assert_eq!(
        list(&over.dependencies(&web.address)),
        ["terraform_data.spare"]
    );
    let by_main = select(&over, &["main.tf"], &[]);
    let all = [
        "terraform_data.net",
        "terraform_data.spare",
        "terraform_data.web",
        "module.m.terraform_data.inner",
    ];
    assert_eq!(list(&by_main.write.addresses), all);
    let by_override = select(&over, &["x_override.tf"], &[]);
    assert_eq!(
        list(&by_override.write.addresses),
        ["terraform_data.web", "module.m.terraform_data.inner"]
    );
    assert_eq!(list(&by_override.closure), all);
}

/// S35.
#[test]
fn an_import_belongs_to_what_it_names() {
    let imports = case("import-target");
    assert_eq!(imports.imports().len(), 2);
    assert_eq!(imports.imports()[1].to.to_string(), "terraform_data.i[1]");
    let one: Target = "terraform_data.i[0]".parse().unwrap();
    let selection = imports.select(&Selectors {
        targets: vec![one],
        ..Selectors::default()
    });
    assert_eq!(plan_targets(&selection), ["terraform_data.i[0]"]);
    assert_eq!(list(&selection.write.addresses), ["terraform_data.i"]);
}

/// S37: nothing is left unread.
#[test]
fn odd_but_legal_syntax_is_read() {
    let odd = case("hcl");
    assert_eq!(odd.doubts(), []);
    assert_eq!(
        list(&odd.dependencies(&address("terraform_data.splat"))),
        ["terraform_data.list"]
    );
}

/// S38: a file that only assigns variables selects nothing, and says what it has to do with.
#[test]
fn variables_files_are_known() {
    let vars = case("vars");
    let selection = select(
        &vars,
        &["terraform.tfvars", "z.auto.tfvars.json", "README.md"],
        &[],
    );
    let roles: Vec<FileRole> = selection.files.iter().map(|report| report.role).collect();
    assert_eq!(
        roles,
        [FileRole::Variables, FileRole::Variables, FileRole::Unknown]
    );
    assert!(
        selection
            .files
            .iter()
            .all(config_scope::FileReport::selects_nothing)
    );
    assert_eq!(vars.variables().len(), 6);
    assert!(vars.variables().iter().all(|variable| variable.has_default));
}
