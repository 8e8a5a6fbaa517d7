//! A directory that plain Terraform works in needs no configuration of ours.

use crate::peer::{Peer, answer};
use crate::sealed::{Sealed, URL};

fn block(address: &str) -> String {
    format!("terraform {{\n  backend \"http\" {{\n    address = \"{address}\"\n  }}\n}}\n")
}

#[test]
fn variables_fill_what_the_block_leaves_open() {
    let sealed = Sealed::new()
        .file("main.tf", "terraform {\n  backend \"http\" {}\n}\n")
        .variable("TF_HTTP_ADDRESS", URL)
        .variable("TF_HTTP_PASSWORD", "klp_mellon");
    assert_eq!(
        sealed.setting("state", &[]),
        ("prod".into(), "environment TF_HTTP_ADDRESS".into())
    );
    assert_eq!(
        sealed.setting("token", &[]).1,
        "environment TF_HTTP_PASSWORD"
    );
}

#[test]
fn the_data_directory_may_be_elsewhere() {
    let sealed = Sealed::new()
        .file(
            "data/terraform.tfstate",
            format!(r#"{{"backend":{{"type":"http","config":{{"address":"{URL}"}}}}}}"#),
        )
        .variable("TF_DATA_DIR", "data");
    assert_eq!(sealed.setting("state", &[]).1, "data/terraform.tfstate");
}

#[test]
fn what_cannot_be_used_is_a_note_and_a_hint_where_something_is_missing() {
    let gitlab = "https://gitlab.com/api/v4/projects/1/terraform/state/prod";
    let sealed = Sealed::new().file("main.tf", block(gitlab));
    sealed.kl(&["config"]).expect(0).says("note: main.tf:3: ");
    sealed
        .kl(&["status"])
        .expect(2)
        .says("because: main.tf:3: ")
        .says("kl init");

    let sealed = Sealed::new().file("main.tf", "terraform {\n  backend \"http\" {\n");
    sealed.kl(&["config"]).expect(0).says("not readable as HCL");

    let s3 = r#"{"backend":{"type":"s3","config":{}}}"#;
    let sealed = Sealed::new().file(".terraform/terraform.tfstate", s3);
    sealed
        .kl(&["status"])
        .expect(2)
        .says("the initialised backend is `s3`");
}

#[test]
fn broken_files_do_not_matter_when_nothing_is_asked_of_them() {
    let sealed = Sealed::new()
        .file("main.tf", "terraform { backend \"http\" {")
        .variable("KL_TOKEN", "klp_mellon")
        .configured();
    let done = sealed.kl(&["config"]).expect(0);
    assert_eq!(done.stderr(), "");
}

#[test]
fn the_backend_password_goes_to_its_own_server_and_to_no_other() {
    let theirs = Peer::answering(&[&answer("401 Unauthorized", "", "")]);
    let ours = Peer::answering(&[&answer("401 Unauthorized", "", "")]);
    let sealed = Sealed::new()
        .file("main.tf", block(&theirs.state_url()))
        .variable("TF_HTTP_PASSWORD", "klp_mellon");

    sealed.kl(&["whoami"]).expect(5);
    assert!(
        theirs.seen()[0].contains("authorization: Bearer klp_mellon"),
        "{:?}",
        theirs.seen()
    );

    sealed
        .kl(&["whoami", "--state-url", &ours.state_url()])
        .expect(5);
    assert!(!ours.seen()[0].contains("mellon"), "{:?}", ours.seen());
}
