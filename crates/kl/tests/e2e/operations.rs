//! `kl state rm` and `kl state mv`, held against the real `terraform state rm` and `terraform state mv`.

use crate::harness::case_file;
use crate::stack::Project;

/// A state with keyed modules, and the same document for the real terraform.
fn project() -> Project {
    let project = Project::new();
    project.import(case_file("module-provider.json"));
    project.file("local.tfstate", case_file("module-provider.json"));
    project
}

fn listed(project: &Project) -> Vec<String> {
    let list = project.kl(&["state", "list"]).expect(0).stdout();
    list.lines().map(str::to_owned).collect()
}

fn terraform(project: &Project, arguments: &[&str]) -> String {
    let done = project
        .command("terraform")
        .args(arguments)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap()
}

fn terraform_lists(project: &Project) -> Vec<String> {
    let list = terraform(project, &["state", "list", "-state=local.tfstate"]);
    list.lines().map(str::to_owned).collect()
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn what_is_removed_is_what_terraform_would_remove() {
    let project = project();
    let before = listed(&project);
    let address = before[0].clone();
    project
        .kl(&["state", "rm", &address])
        .expect(0)
        .says("add `--apply`");
    assert_eq!(listed(&project), before, "a preview changes nothing");
    project.kl(&["state", "rm", &address, "--apply"]).expect(0);
    terraform(&project, &["state", "rm", "-state=local.tfstate", &address]);
    assert_eq!(listed(&project), terraform_lists(&project));
    project
        .kl(&["state", "rm", &address, "--apply"])
        .expect(1)
        .says("holds nothing at");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn what_is_moved_stands_where_terraform_would_move_it() {
    let project = project();
    let from = listed(&project)
        .into_iter()
        .find(|address| !address.starts_with("data.") && !address.contains(".data."))
        .unwrap();
    let kind = from.rsplit('.').nth(1).unwrap().to_owned();
    let to = format!("{kind}.moved_here");
    project
        .kl(&["state", "mv", &from, &to, "--apply"])
        .expect(0);
    terraform(
        &project,
        &["state", "mv", "-state=local.tfstate", &from, &to],
    );
    assert_eq!(listed(&project), terraform_lists(&project));
    project.kl(&["state", "mv", &from]).expect(2);
}
