//! `kl status` and `kl unlock` with a lock in the way.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::stack::{LINEAGE, Project, document, stack};

#[test]
#[ignore = "needs cargo xtask stack"]
fn status_names_the_holder_and_how_long() {
    let project = Project::new();
    project.import(document(1, LINEAGE, &["a"]));
    let lock = project.lock_by("bob@ci");
    let text = project.kl(&["status"]).expect(0).stdout();
    assert!(text.contains("held by bob@ci"), "{text}");
    assert!(text.contains("OperationTypeApply"), "{text}");
    assert!(text.contains(&lock), "{text}");
    assert!(text.contains("second"), "{text}");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn status_goes_on_and_tells_what_happens() {
    let project = Project::new();
    project.import(document(1, LINEAGE, &["a"]));
    let watching = |arguments: &[&str]| {
        let mut command = project.kl_command(arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines)
    };
    let (mut child, mut lines) = watching(&["status", "--watch"]);
    let (mut json_child, mut json_lines) = watching(&["status", "--watch", "--json"]);
    assert!(lines.next().unwrap().unwrap().ends_with("free"));
    let first: Value = serde_json::from_str(&json_lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(first["event"], "standing");
    assert_eq!(first["data"]["head_seq"], 1);
    project.lock_by("bob@ci");
    let held = lines.next().unwrap().unwrap();
    assert!(held.contains("held by bob@ci, Terraform"), "{held}");
    let held: Value = serde_json::from_str(&json_lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(held["data"]["holders"][0]["who"], "bob@ci");
    for child in [&mut child, &mut json_child] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn unlock_breaks_what_it_named_and_nothing_else() {
    let project = Project::new();
    project.import(document(1, LINEAGE, &["a"]));
    assert_eq!(project.json(&["unlock"])["broken"], serde_json::json!([]));

    let lock = project.lock_by("bob@ci");
    let admin = project.as_token(&stack("ADMIN_TOKEN"));
    admin
        .kl(&["unlock"])
        .expect(2)
        .says(&format!("Break the lock {lock}"))
        .says("held by bob@ci")
        .says("--yes");
    admin
        .kl(&["unlock", "--lock-id", "another", "--yes"])
        .expect(1)
        .says("no lock another");
    assert_eq!(
        project.json(&["status"])["holders"]
            .as_array()
            .unwrap()
            .len(),
        1
    );

    let done = admin.kl(&["unlock", "--lock-id", &lock, "--yes"]).expect(0);
    assert!(
        done.stdout().contains("held by bob@ci"),
        "{}",
        done.stdout()
    );
    assert_eq!(project.json(&["status"])["holders"], serde_json::json!([]));
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_reader_breaks_no_lock() {
    let project = Project::new();
    project.import(document(1, LINEAGE, &["a"]));
    project.lock_by("bob@ci");
    let reader = project.as_token(&stack("READER_TOKEN"));
    reader.kl(&["unlock", "--yes"]).expect(5);
}
