//! Every document that real Terraform accepts, and large generated ones.

use std::process::Command;

use protocol::Role;

use super::documents::{shared, shared_path, with_serial};
use super::stage::Stage;

/// The documents of the index that Terraform accepts, by name.
fn accepted() -> Vec<(String, Vec<u8>)> {
    let index = String::from_utf8(shared("corpus/states/INDEX.md")).unwrap();
    let documents: Vec<_> = index
        .lines()
        .filter(|line| line.contains("| accepted ("))
        .filter_map(|line| line.strip_prefix("| ")?.split(' ').next())
        .map(|name| (name.to_owned(), shared(&format!("corpus/states/{name}"))))
        .collect();
    assert!(documents.len() > 70, "the index lists the corpus");
    documents
}

/// Documents of Terraform 1.0 and newer that it did not write as they stand: edited by hand, or fixtures.
const NOT_AS_WRITTEN: &[&str] = &[
    "001", "002", "003", "004", "012", "022", "025", "053", "054", "055", "060", "074", "075",
    "089", "205", "206", "207", "213", "215",
];

#[tokio::test(flavor = "multi_thread")]
async fn whatever_terraform_accepts_comes_back_byte_for_byte_for_ever() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let documents = accepted();
    // Each in a state of its own, and all of them as versions of one state.
    ann.lock("all", "all").await.ok();
    for (name, document) in &documents {
        let state = format!("s{}", &name[..3]);
        ann.write(&state, document.clone()).await.ok();
        assert!(ann.read(&state).await.ok().body == *document, "{name}");
        ann.write_under("all", "all", document.clone()).await.ok();
        assert!(ann.read("all").await.ok().body == *document, "{name}");
        let form: String = sqlx::query_scalar("SELECT form FROM state_versions v JOIN states s ON s.id = v.state_id WHERE s.name = $1")
            .bind(&state)
            .fetch_one(stage.app.database.owner())
            .await
            .unwrap();
        let opaque = !matches!(tfstate::parse(document), Ok(tfstate::Document::State(_)));
        let expected = match NOT_AS_WRITTEN.contains(&&name[..3]) {
            _ if opaque => "opaque",
            true => "kept",
            false => "rows",
        };
        assert_eq!(form, expected, "{name}");
    }
    ann.unlock("all", "all").await.ok();
    for (seq, (name, document)) in (1..).zip(&documents) {
        assert!(
            ann.version("all", seq).await == *document,
            "{name} as version {seq}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rolled_back_documents_of_the_corpus_are_what_they_were_but_for_the_serial() {
    let stage = Stage::start().await;
    let boss = stage.client(Role::Maintainer).await;
    for (name, document) in accepted() {
        let Ok(tfstate::Document::State(_)) = tfstate::parse(&document) else {
            continue;
        };
        let state = format!("s{}", &name[..3]);
        boss.write(&state, document.clone()).await.ok();
        boss.write_locked(&state, super::documents::Doc::new(41).bytes())
            .await;
        boss.roll_back(&state, 1).await.ok();
        // A document that shows no serial gets one.
        let expected = tfstate::with_serial(&document, 42);
        let body = boss.read(&state).await.ok().body;
        assert!(Some(&body) == expected.as_ref(), "{name}");
    }
}

/// A state made by the generator of the shared inputs.
fn generated(arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("python3")
        .arg(shared_path("corpus/gen_state.py"))
        .args(arguments)
        .output()
        .expect("python3 runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_of_a_large_state_costs_what_it_changes() {
    let stage = Stage::start().await;
    let ann = stage.client(Role::Maintainer).await;
    let count = "4000";
    let first = generated(&["--instances", count, "--seed", "1"]);
    ann.write_locked("prod", first.clone()).await;
    let mut versions = vec![first.clone()];
    for (serial, mutated) in [(2, 25), (3, 3), (4, 0)] {
        let serial = serial.to_string();
        let document = generated(&[
            "--instances",
            count,
            "--seed",
            "1",
            "--mutate",
            &mutated.to_string(),
            "--serial",
            &serial,
        ]);
        ann.write_locked("prod", document.clone()).await;
        versions.push(document);
    }
    ann.roll_back("prod", 2).await.ok();
    versions.push(with_serial(&versions[1], 5));
    let changed: Vec<_> = ann
        .versions("prod")
        .await
        .iter()
        .map(|version| version.rows_changed)
        .collect();
    // The mutations nest: 22 of the 25 go back, then the other 3, and the rollback brings all 25 again (each closes a row
    // and opens one).
    assert_eq!(changed[1..4], [25, 22, 3]);
    assert!(changed[4] == 25 || changed[4] == 50, "{changed:?}");
    assert_eq!(
        stage.count("SELECT count(*) FROM version_documents").await,
        0
    );
    for (seq, document) in (1..).zip(&versions) {
        assert!(ann.version("prod", seq).await == *document, "version {seq}");
    }
}
