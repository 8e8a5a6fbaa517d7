//! Archives read by others: the reference reader in Python, `tar`, `zstd`.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails its test")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::TestHistory;
use support::pack::Unpacked;
use support::states::{Pieces, changed_in_every_way, corpus, small};

/// Runs a program, or says what to install.
fn run(program: &str, arguments: &[&Path]) -> Output {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| {
            panic!(
                "{program} cannot be run ({error}); install it: apt-get install -y zstd tar python3"
            )
        });
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} failed: {errors}");
    output
}

fn reader() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/archive_reader.py")
}

fn extracts_every_version(history: &TestHistory) {
    extracts_from(&history.export(), history);
}

fn extracts_from(bytes: &[u8], history: &TestHistory) {
    let directory = tempfile::tempdir().unwrap();
    let archive = directory.path().join("state.klstate");
    std::fs::write(&archive, bytes).unwrap();
    run("zstd", &[Path::new("--version")]);
    let out = directory.path().join("out");
    run("python3", &[&reader(), &archive, &out]);
    for version in &history.versions {
        let name = format!("{}.tfstate.json", version.meta.seq);
        let document = std::fs::read(out.join(name)).unwrap();
        assert!(
            document == version.document,
            "version {} differs",
            version.meta.seq
        );
    }
    assert_eq!(
        std::fs::read_dir(out).unwrap().count(),
        history.versions.len()
    );
}

#[test]
fn the_reference_reader_extracts_every_version_of_the_corpus() {
    let mut documents: Vec<Vec<u8>> = corpus()
        .iter()
        .flat_map(|(_, document)| changed_in_every_way(document))
        .collect();
    documents.push(small(1, 1));
    extracts_every_version(&TestHistory::of(documents));
}

#[test]
fn the_reference_reader_follows_a_long_chain_of_deltas() {
    let documents = (1..=90).map(|serial| {
        let mut pieces = Pieces::read(&small(serial, 20)).unwrap();
        let serial = serial as usize;
        pieces.rows.rotate_left(2 * (serial % 7));
        pieces.rows.truncate(40 - 2 * (serial % 5));
        pieces.rows.sort_by(|a, b| (&a.0, &a.2).cmp(&(&b.0, &b.2)));
        pieces.change(serial % 30, serial);
        pieces.set_output(&format!("o{}", serial % 4), "[]");
        pieces.render()
    });
    extracts_every_version(&TestHistory::of(documents));
}

/// What a later minor or a service with runs may bring is stepped over.
#[test]
fn the_reference_reader_steps_over_what_it_does_not_need() {
    let history = TestHistory::of((1..=4).map(|serial| small(serial, 2)))
        .tag("first", 1)
        .run("run_1", &[2, 3]);
    let mut unpacked = Unpacked::of(&history.export());
    unpacked.edit("archive.json", |info| {
        info["minor"] = 1.into();
        info["ext"] = serde_json::json!(["ext/graph.bin", "ext/labels.json"]);
        info["entries"] = (info["entries"].as_u64().unwrap() + 2).into();
        info["colour"] = "blue".into();
    });
    unpacked.edit("manifest.json", |manifest| {
        manifest["minor"] = 1.into();
        manifest["counts"]["ext"] = 2.into();
    });
    unpacked.insert_before("manifest.json", "ext/graph.bin", &[0xff; 3000]);
    unpacked.insert_before("manifest.json", "ext/labels.json", b"{}");
    let archive = unpacked.pack_signed();
    let trusted = support::trusted();
    let policy = archive::Policy::trusting(&trusted, 1 << 30);
    let verified = archive::verify(&archive[..], &policy).unwrap();
    assert_eq!((verified.counts.ext, verified.runs.len()), (2, 1));
    extracts_from(&archive, &history);
}

#[test]
fn tar_opens_an_archive_without_a_flag() {
    let history = TestHistory::of((1..=3).map(|serial| small(serial, 3)));
    let directory = tempfile::tempdir().unwrap();
    let archive = directory.path().join("state.klstate");
    std::fs::write(&archive, history.export()).unwrap();
    run("zstd", &[Path::new("-t"), &archive]);
    let flags = [
        Path::new("-C"),
        directory.path(),
        Path::new("--zstd"),
        Path::new("-xf"),
        &archive,
    ];
    run("tar", &flags);
    let head = std::fs::read(directory.path().join("versions/3.tfstate.json")).unwrap();
    assert!(head == history.versions[2].document);
    assert!(directory.path().join("versions/2.delta.jsonl").exists());
}
