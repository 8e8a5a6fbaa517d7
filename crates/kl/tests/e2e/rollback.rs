//! `kl rollback`: a look first, then a new version on top.

use crate::stack::{LINEAGE, Project, document, stack};

fn history() -> Project {
    let project = Project::with_token(&stack("ADMIN_TOKEN"));
    project.import(document(1, LINEAGE, &["a", "b"]));
    project.import(document(2, LINEAGE, &["b", "c"]));
    project
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn the_preview_changes_nothing_and_apply_does_what_it_said() {
    let project = history();
    let preview = project.kl(&["rollback", "--to", "1"]).expect(0);
    assert!(
        preview.stdout().contains("  + terraform_data.a\n"),
        "{}",
        preview.stdout()
    );
    assert!(
        preview.stdout().contains("  - terraform_data.c\n"),
        "{}",
        preview.stdout()
    );
    assert!(
        !preview.stdout().contains("terraform_data.b"),
        "{}",
        preview.stdout()
    );
    preview.says("--apply");
    assert_eq!(project.json(&["status"])["head"]["seq"], 2);

    let done = project.json(&["rollback", "--to", "1", "--apply"]);
    assert_eq!(done["applied"]["seq"], 3);
    assert_eq!(done["applied"]["serial"], 3);
    let pulled: serde_json::Value =
        serde_json::from_str(&project.kl(&["pull"]).expect(0).stdout()).unwrap();
    let mut first: serde_json::Value =
        serde_json::from_str(&document(1, LINEAGE, &["a", "b"])).unwrap();
    first["serial"] = 3.into();
    assert_eq!(pulled, first);
    assert_eq!(
        project.json(&["history"])["versions"][0]["source"],
        "rollback"
    );
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn without_a_target_it_is_the_version_before() {
    let project = history();
    let view = project.json(&["rollback"]);
    assert_eq!(view["target"]["seq"], 1);
    project
        .kl(&["rollback", "--to", "head"])
        .expect(1)
        .says("nothing to roll back");
    project
        .kl(&["rollback", "--to", "9"])
        .expect(1)
        .says("kl history");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_held_state_and_a_lower_role_are_refused() {
    let project = history();
    let reader = project.as_token(&stack("READER_TOKEN"));
    reader.kl(&["rollback", "--to", "1", "--apply"]).expect(5);
    project.lock_by("bob@ci");
    project
        .kl(&["rollback", "--to", "1", "--apply"])
        .expect(3)
        .says("held by bob@ci");
    assert_eq!(project.json(&["status"])["head"]["seq"], 2);
}
