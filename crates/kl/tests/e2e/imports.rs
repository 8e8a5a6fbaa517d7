//! `kl import snapshot` and `kl pull`: what goes in comes out.

use std::process::Stdio;

use crate::harness::case_file;
use crate::stack::{LINEAGE, Project, document, stack};

#[test]
#[ignore = "needs cargo xtask stack"]
fn what_was_imported_is_pulled_byte_for_byte() {
    for name in [
        "base-v4.json",
        "odd-bytes.json",
        "nul-and-surrogates.json",
        "encrypted-envelope.json",
        "encrypted-envelope-with-serial.json",
        "keys-state.json",
    ] {
        let project = Project::new();
        let document = case_file(name);
        project.import(&document);
        let pulled = project.kl(&["pull"]).expect(0);
        assert!(pulled.0.stdout == document, "{name} came back changed");
        let status = project.json(&["status"]);
        assert_eq!(status["head"]["seq"], 1, "{name}");
        assert_eq!(status["head"]["source"], "import", "{name}");
        assert_eq!(
            status["holders"],
            serde_json::json!([]),
            "{name}: the lock stayed"
        );
    }
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn utf16_and_marks_are_stored_as_plain_utf8() {
    let plain = String::from_utf8(case_file("base-v4.json")).unwrap();
    for (name, note) in [
        ("utf16le.json", "UTF-16"),
        ("bom-utf8.json", "byte order mark"),
    ] {
        let project = Project::new();
        project.file(name, case_file(name));
        project
            .kl(&["import", "snapshot", name])
            .expect(0)
            .says(note);
        let pulled = project.kl(&["pull"]).expect(0).stdout();
        assert_eq!(pulled.replace("\r\n", "\n"), plain, "{name}");
    }
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_full_state_is_not_replaced_by_another_history_without_force() {
    let project = Project::new();
    project.import(document(5, LINEAGE, &["a", "b"]));

    let import = |text: String, flags: &[&str]| {
        project.file("next.json", text);
        let mut arguments = vec!["import", "snapshot", "next.json"];
        arguments.extend(flags);
        project.kl(&arguments)
    };
    import(document(4, LINEAGE, &["a"]), &[])
        .expect(1)
        .says("at serial 5; the file is older, at serial 4");
    let foreign = "99999999-0000-4000-8000-000000000009";
    import(document(6, foreign, &["a"]), &[])
        .expect(1)
        .says(foreign)
        .says("--force");
    let status = project.json(&["status"]);
    assert_eq!(status["head"]["seq"], 1);
    assert_eq!(status["holders"], serde_json::json!([]));

    import(document(4, LINEAGE, &["a"]), &["--force"]).expect(0);
    import(document(5, LINEAGE, &["a", "c"]), &[]).expect(0);
    assert_eq!(project.json(&["status"])["head"]["seq"], 3);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn an_import_waits_outside_somebody_elses_lock() {
    let project = Project::new();
    project.import(document(1, LINEAGE, &["a"]));
    let lock = project.lock_by("bob@ci");
    project.file("next.json", document(2, LINEAGE, &["a", "b"]));
    let started = std::time::Instant::now();
    project
        .kl(&["import", "snapshot", "next.json", "-lock-timeout=2s"])
        .expect(3)
        .says("held by bob@ci")
        .says(&lock);
    assert!(started.elapsed().as_secs() >= 1, "it did not try again");
    project
        .kl(&["import", "snapshot", "next.json", "-lock=false"])
        .expect(3);
    assert_eq!(project.json(&["status"])["head"]["seq"], 1);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_reader_imports_nothing() {
    let project = Project::new();
    project.import(document(1, LINEAGE, &["a"]));
    let reader = project.as_token(&stack("READER_TOKEN"));
    reader.file("next.json", document(2, LINEAGE, &["b"]));
    reader
        .kl(&["import", "snapshot", "next.json"])
        .expect(5)
        .says("kl whoami");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn versions_are_pulled_by_number_by_steps_back_and_into_files() {
    let project = Project::new();
    let versions: Vec<String> = (1..=3)
        .map(|serial| document(serial, LINEAGE, &["a", "b", "c"][..serial as usize]))
        .collect();
    for version in &versions {
        project.import(version);
    }
    for (reference, index) in [("1", 0), ("@1", 1), ("@2", 0), ("head", 2), ("3", 2)] {
        let pulled = project
            .kl(&["pull", "--version", reference])
            .expect(0)
            .stdout();
        assert_eq!(pulled, versions[index], "{reference}");
    }
    project
        .kl(&["pull", "--version", "no-such-tag"])
        .expect(1)
        .says("there is no such version");
    for missing in ["4", "@3"] {
        project
            .kl(&["pull", "--version", missing])
            .expect(1)
            .says("kl history");
    }

    let view = project.json(&["pull", "-o", "out.tfstate"]);
    assert_eq!(view["bytes"], versions[2].len());
    assert_eq!(
        std::fs::read_to_string(project.path("out.tfstate")).unwrap(),
        versions[2]
    );
    // A failed pull leaves what was there.
    project
        .kl(&["pull", "--version", "4", "-o", "out.tfstate"])
        .expect(1);
    assert_eq!(
        std::fs::read_to_string(project.path("out.tfstate")).unwrap(),
        versions[2]
    );
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_reader_of_the_document_may_go_away_half_way() {
    let project = Project::new();
    // More than a pipe holds.
    let names: Vec<String> = (0..5_000).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    project.import(document(1, LINEAGE, &names));
    let mut child = project
        .kl_command(&["pull"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_eq!(done.stderr, b"");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_state_that_was_never_written_is_said_to_be_so() {
    let project = Project::new();
    for arguments in [
        &["pull"][..],
        &["status"],
        &["history"],
        &["state", "list"],
        &["rollback"],
    ] {
        project.kl(arguments).expect(1).says(&project.state);
    }
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_deleted_state_comes_back_whole() {
    let project = Project::with_token(&stack("ADMIN_TOKEN"));
    project.import(document(1, LINEAGE, &["a"]));
    assert_eq!(project.request("DELETE", &project.url(), Vec::new()).0, 200);
    project.kl(&["pull"]).expect(1);
    project.kl(&["undelete"]).expect(0);
    assert_eq!(
        project.kl(&["pull"]).expect(0).stdout(),
        document(1, LINEAGE, &["a"])
    );
}
