//! `kl export state`, `kl import archive`, `kl jobs`, `kl tag`: a state with its history, out and in again.

use crate::stack::{LINEAGE, Project, document, stack};

/// A state of three versions, two of them tagged, and somebody who may export it.
fn history() -> Project {
    let project = Project::with_token(&stack("ADMIN_TOKEN"));
    for (serial, names) in [(1, &["a"][..]), (2, &["a", "b"]), (3, &["b", "c"])] {
        project.import(document(serial, LINEAGE, names));
    }
    project
        .kl(&[
            "tag",
            "set",
            "first",
            "--version",
            "1",
            "--description",
            "where it began",
        ])
        .expect(0);
    project.kl(&["tag", "set", "newest"]).expect(0);
    project
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_state_moves_with_its_history() {
    let project = history();
    let done = project
        .kl(&["export", "state", "--out", "out.klstate"])
        .expect(0);
    assert!(
        done.stdout().contains("holds 3 versions"),
        "{}",
        done.stdout()
    );
    project.kl(&["archive", "verify", "out.klstate"]).expect(0);

    // Its own name is taken, which is said before anything is uploaded.
    project
        .kl(&["import", "archive", "out.klstate"])
        .expect(1)
        .says("nothing was uploaded");
    let copy = format!("{}-copy", project.state);
    let job = project.json(&["import", "archive", "out.klstate", "--as", &copy]);
    assert_eq!(job["status"], "done");
    assert_eq!(job["imported"]["versions"], 3);
    assert_eq!(job["imported"]["origin"], "trusted");
    for version in ["1", "2", "head", "first"] {
        let (left, right) = (
            project.kl(&["pull", "--version", version]).expect(0),
            project.kl(&["pull", &copy, "--version", version]).expect(0),
        );
        assert_eq!(left.0.stdout, right.0.stdout, "version {version}");
    }
    let tags = project.json(&["tag", "list", &copy]);
    assert_eq!(tags, project.json(&["tag", "list"]));
    assert_eq!(tags["tags"][0]["description"], "where it began");

    project
        .kl(&["export", "state", &copy, "--out", "again.klstate"])
        .expect(0);
    let done = project
        .kl(&["archive", "diff", "out.klstate", "again.klstate"])
        .expect(0);
    assert!(
        done.stdout().contains("hold the same history"),
        "{}",
        done.stdout()
    );
    let listed = project.kl(&["jobs"]).expect(0).stdout();
    assert!(
        listed.contains("export") && listed.contains("import"),
        "{listed}"
    );
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_job_can_be_left_to_the_server_and_fetched_later() {
    let project = history();
    let job = project.json(&["export", "state", "--no-wait"]);
    let id = job["id"].as_str().unwrap();
    project.kl(&["jobs", id, "--wait"]).expect(0);
    // What an interrupted download left is gone on with: here the wrong bytes, which are found out.
    let partial = format!("later.klstate.{id}.partial");
    project.file(&partial, b"nonsense");
    project
        .kl(&["jobs", id, "--out", "later.klstate"])
        .expect(1)
        .says("thrown away");
    project
        .kl(&["jobs", id, "--out", "later.klstate"])
        .expect(0);
    let whole = std::fs::read(project.path("later.klstate")).unwrap();
    project.file(&partial, &whole[..100]);
    project
        .kl(&["jobs", id, "--out", "later.klstate"])
        .expect(0);
    assert_eq!(std::fs::read(project.path("later.klstate")).unwrap(), whole);
    assert!(!project.path(&partial).exists());
    project
        .kl(&["jobs", id, "--cancel"])
        .expect(1)
        .says("ended before");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn copies_are_read_only_or_in_the_place_of_another_only_when_asked() {
    let project = history();
    project
        .kl(&["export", "state", "--out", "out.klstate"])
        .expect(0);
    let kept = format!("{}-kept", project.state);
    project
        .kl(&[
            "import",
            "archive",
            "out.klstate",
            "--as",
            &kept,
            "--archived",
        ])
        .expect(0);
    project.file("next.json", document(4, LINEAGE, &["d"]));
    project
        .kl(&["import", "snapshot", "next.json", &kept])
        .expect(1)
        .says("archived");
    project.import(document(4, LINEAGE, &["d"]));
    project
        .kl(&["import", "archive", "out.klstate", "--overwrite", "another"])
        .expect(1)
        .says("overwrite");
    project
        .kl(&[
            "import",
            "archive",
            "out.klstate",
            "--overwrite",
            &project.state,
        ])
        .expect(0);
    let versions = project.json(&["history"]);
    assert_eq!(versions["versions"].as_array().unwrap().len(), 3);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn exporting_needs_more_than_reading_and_writing() {
    let project = history();
    for token in ["READER_TOKEN", "TOKEN"] {
        project
            .as_token(&stack(token))
            .kl(&["export", "state", "--out", "out.klstate"])
            .expect(5);
    }
    assert!(!project.path("out.klstate").exists());
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_tag_is_moved_only_when_asked() {
    let project = history();
    project
        .kl(&["tag", "set", "first", "--version", "2"])
        .expect(1)
        .says("names version 1 already");
    project
        .kl(&["tag", "set", "first", "--version", "2", "--move"])
        .expect(0);
    project
        .kl(&["tag", "set", "2nd"])
        .expect(1)
        .says("cannot be a tag");
    project.kl(&["tag", "unset", "first"]).expect(0);
    project.kl(&["tag", "unset", "first"]).expect(1);
    project.kl(&["pull", "--version", "first"]).expect(1);
}
