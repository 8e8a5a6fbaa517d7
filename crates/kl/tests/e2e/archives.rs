//! `kl export state`, `kl import archive`, `kl jobs`, `kl tag`: a state with its history, out and in again.

use serde_json::json;
use sha2::{Digest as _, Sha256};

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

/// Asks for an import past `kl`, as one does whose upload then broke off; answers the job's id.
fn asked_for(project: &Project, name: &str, archive: &[u8]) -> String {
    let digest = Sha256::digest(archive);
    let sha256: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let body = json!({ "name": name, "size_bytes": archive.len(), "parts": [sha256] });
    let url = format!(
        "{}/v1/workspaces/{}/environments/{}/imports",
        stack("URL"),
        stack("WORKSPACE"),
        stack("ENV")
    );
    let (status, job) = project.request("POST", &url, body.to_string().into_bytes());
    assert_eq!(status, 202, "{job}");
    job["id"].as_str().unwrap().to_owned()
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn an_upload_goes_on_with_its_own_file_and_no_other() {
    let project = history();
    project
        .kl(&["export", "state", "--out", "out.klstate"])
        .expect(0);
    project.import(document(4, LINEAGE, &["c"]));
    project
        .kl(&["export", "state", "--out", "other.klstate"])
        .expect(0);
    let archive = std::fs::read(project.path("out.klstate")).unwrap();
    let copy = format!("{}-copy", project.state);
    let id = asked_for(&project, &copy, &archive);
    project
        .kl(&["jobs", &id, "--wait"])
        .expect(1)
        .says("waits for its archive");
    project
        .kl(&["import", "archive", "other.klstate", "--resume", &id])
        .expect(1)
        .says("is not the archive that the job was asked for");
    // Nothing came of it, and nobody has the name.
    project.kl(&["pull", &copy]).expect(1);
    let job = project.json(&[
        "import",
        "archive",
        "out.klstate",
        "--resume",
        &id,
        "--no-wait",
    ]);
    assert_ne!(job["status"], "uploading");
    // What was completed before is only followed.
    let job = project.json(&["import", "archive", "out.klstate", "--resume", &id]);
    assert_eq!(
        (&job["status"], &job["imported"]["versions"]),
        (&json!("done"), &json!(3))
    );
    project
        .kl(&["import", "archive", "out.klstate", "--resume", &id])
        .expect(0);
    let unknown = "job_00000000000000000000000000000001";
    project
        .kl(&["import", "archive", "out.klstate", "--resume", unknown])
        .expect(1);
    project
        .kl(&[
            "import",
            "archive",
            "out.klstate",
            "--resume",
            &id,
            "--archived",
        ])
        .expect(2);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_job_of_another_is_seen_and_left_alone() {
    let project = history();
    let copy = format!("{}-copy", project.state);
    let id = asked_for(&project, &copy, b"not an archive");
    let writer = project.as_token(&stack("TOKEN"));
    let seen = writer.json(&["jobs", &id]);
    assert_eq!(
        (&seen["kind"], &seen["status"]),
        (&json!("import"), &json!("uploading"))
    );
    let listed = writer.json(&["jobs", "--limit", "0"]);
    let listed = listed["jobs"].as_array().unwrap().iter();
    assert!(listed.filter(|job| job["id"] == seen["id"]).count() == 1);
    writer
        .kl(&["jobs", &id, "--cancel"])
        .expect(5)
        .says("takes the role maintainer");
    project
        .kl(&["jobs", &id, "--out", "x.klstate"])
        .expect(1)
        .says("waits for its archive");
    let cancelled = project.json(&["jobs", &id, "--cancel"]);
    assert_eq!(cancelled["cancel_asked"], true);
    project
        .kl(&["jobs", &id, "--wait"])
        .expect(1)
        .says("cancelled");
    project
        .as_token(&stack("READER_TOKEN"))
        .kl(&["jobs"])
        .expect(5);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn what_is_no_archive_is_never_uploaded() {
    let project = history();
    project
        .kl(&["export", "state", "--out", "out.klstate"])
        .expect(0);
    let mut bytes = std::fs::read(project.path("out.klstate")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    project.file("flipped.klstate", &bytes);
    project.file("cut.klstate", &bytes[..middle]);
    project.file("empty.klstate", b"");
    project.file("text.klstate", b"no archive at all");
    let copy = format!("{}-copy", project.state);
    for file in ["flipped", "cut", "empty", "text", "missing"] {
        let file = format!("{file}.klstate");
        let refused = project.kl(&["import", "archive", &file, "--as", &copy]);
        refused.expect(1);
    }
    // Names that are none, and a name that is not the one to be replaced.
    for name in ["a/b", "..", "", "a\nb"] {
        project
            .kl(&["import", "archive", "out.klstate", "--as", name])
            .expect(2);
    }
    let jobs = project.json(&["jobs", "--limit", "0"]);
    let jobs = jobs["jobs"].as_array().unwrap().iter();
    assert!(jobs.filter(|job| job["state"] == *copy).count() == 0);
    // A directory, and a name that the file cannot have.
    std::fs::create_dir(project.path("folder")).unwrap();
    project
        .kl(&["export", "state", "--out", "folder"])
        .expect(2)
        .says("is a directory");
    project
        .kl(&["export", "state", "--out", "nowhere/out.klstate"])
        .expect(1)
        .says("could not write");
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
