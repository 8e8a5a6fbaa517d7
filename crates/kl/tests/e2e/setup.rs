//! From nothing to the first apply.

use crate::stack::{LINEAGE, Project, document, stack};

#[test]
#[ignore = "needs cargo xtask stack"]
fn init_gives_a_block_that_terraform_takes() {
    let project = Project::new();
    std::fs::remove_file(project.path(".kl.toml")).unwrap();
    let done = project.kl(&["init", &project.url()]).expect(0);
    project.file("backend.tf", done.stdout());
    done.says("the connection works")
        .says("empty until the first write");
    project.file("main.tf", "resource \"terraform_data\" \"a\" {}\n");
    for arguments in [
        &["init", "-input=false"][..],
        &["apply", "-auto-approve", "-input=false"],
    ] {
        let done = project
            .command("terraform")
            .env("TF_HTTP_PASSWORD", stack("TOKEN"))
            .args(arguments)
            .output()
            .unwrap();
        assert!(done.status.success(), "terraform {arguments:?}: {done:?}");
    }
    assert_eq!(
        project.kl(&["state", "list"]).expect(0).stdout(),
        "terraform_data.a\n"
    );
    assert_eq!(project.json(&["init", "--force"])["state_exists"], true);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_directory_of_plain_terraform_needs_no_file_of_ours() {
    let project = Project::new();
    project.import(document(1, LINEAGE, &["a"]));
    std::fs::remove_file(project.path(".kl.toml")).unwrap();
    project.file(
        "main.tf",
        format!(
            "terraform {{\n  backend \"http\" {{\n    address = \"{}\"\n  }}\n}}\n",
            project.url()
        ),
    );
    let done = project
        .kl_command(&["status"])
        .env_remove("KL_TOKEN")
        .env("TF_HTTP_PASSWORD", stack("TOKEN"))
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_wrong_or_missing_token_is_5() {
    let project = Project::with_token("klp_nonsense");
    project.kl(&["whoami"]).expect(5).says("kl config");
    let done = project
        .kl_command(&["whoami"])
        .env_remove("KL_TOKEN")
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(5));
    assert!(
        String::from_utf8(done.stderr)
            .unwrap()
            .contains("no token was sent")
    );
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn another_workspace_looks_as_if_it_did_not_exist() {
    let project = Project::with_token(&stack("OTHER_TOKEN"));
    project.kl(&["status"]).expect(5).says("kl whoami");
    // As for an environment that does not exist: plain Terraform would take "not found" for "nothing there yet".
    project.kl(&["list"]).expect(5).says("kl whoami");
}
