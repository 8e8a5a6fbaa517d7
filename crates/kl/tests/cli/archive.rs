//! `kl archive`: files, and no server.

use archive::{Preface, Signer, StateInfo, Tag, VersionMeta, VersionRange, Writer, bound_of};
use chrono::DateTime;
use serde_json::Value;
use tfstate::Digest;

use crate::sealed::Sealed;

/// A document as Terraform writes it.
fn document(serial: u64, value: &str, extra: bool) -> Vec<u8> {
    let row = |name: &str, value: &str| {
        format!(
            "    {{\n      \"mode\": \"managed\",\n      \"type\": \"terraform_data\",\n      \"name\": \"{name}\",\n      \"provider\": \"provider[\\\"terraform.io/builtin/terraform\\\"]\",\n      \"instances\": [\n        {{\n          \"schema_version\": 0,\n          \"attributes\": {{\n            \"id\": \"{value}\"\n          }}\n        }}\n      ]\n    }}"
        )
    };
    let mut rows = vec![row("a", value)];
    if extra {
        rows.push(row("b", "one"));
    }
    format!(
        "{{\n  \"version\": 4,\n  \"terraform_version\": \"1.11.4\",\n  \"serial\": {serial},\n  \"lineage\": \"line\",\n  \"outputs\": {{}},\n  \"resources\": [\n{}\n  ],\n  \"check_results\": null\n}}\n",
        rows.join(",\n")
    )
    .into_bytes()
}

fn signer(seed: u8) -> Signer {
    Signer::from_seed(&[seed; 32])
}

/// An archive of these documents, with the tag `first` on the first.
fn packed(documents: &[Vec<u8>], signer: Option<&Signer>) -> Vec<u8> {
    let at = DateTime::from_timestamp(1_790_000_000, 0).unwrap();
    let count = documents.len() as u64;
    let meta = |index: usize| VersionMeta {
        seq: index as u64 + 1,
        id: format!("ver_{index}"),
        serial: Some(index as u64 + 1),
        lineage: Some("line".to_owned()),
        terraform_version: Some("1.11.4".to_owned()),
        source: "terraform".to_owned(),
        created_at: at,
        created_by: "ann".to_owned(),
        run: None,
        forced: false,
        unlocked: false,
        verbatim: false,
        bytes: documents[index].len() as u64,
        sha256: Digest::of(&documents[index]),
        provenance: None,
    };
    let head = meta(documents.len() - 1);
    let bytes = documents.iter().map(|document| document.len() as u64).sum();
    let preface = Preface {
        writer: "a test".to_owned(),
        exported_at: at,
        exported_by: "ann".to_owned(),
        state: StateInfo {
            workspace: "ws_0123456789ab".to_owned(),
            environment: "env_0123456789ab".to_owned(),
            name: "prod".to_owned(),
            id: "st_1".to_owned(),
            head_seq: count,
            head_id: head.id,
            serial: head.serial,
            lineage: head.lineage,
        },
        versions: VersionRange {
            count,
            first: 1,
            last: count,
        },
        has_runs: false,
        max_bytes: bound_of(count, bytes),
    };
    let mut writer = Writer::start(Vec::new(), preface).unwrap();
    for (index, document) in documents.iter().enumerate() {
        writer.document(&meta(index), document).unwrap();
    }
    let tag = Tag {
        name: "first".to_owned(),
        seq: 1,
        description: None,
        created_by: "ann".to_owned(),
        created_at: at,
    };
    writer.tags(&[tag]).unwrap().finish(signer).unwrap().sink
}

fn history() -> Vec<Vec<u8>> {
    vec![
        document(1, "one", false),
        document(2, "two", true),
        document(3, "two", true),
    ]
}

#[test]
fn a_sound_archive_is_verified_and_shown_without_a_server_or_settings() {
    let sealed = Sealed::new()
        .file("prod.klstate", packed(&history(), Some(&signer(1))))
        // Settings that nobody could use do not get in the way.
        .file(".kl.toml", "nonsense = true");
    let done = sealed.kl(&["archive", "verify", "prod.klstate"]).expect(0);
    assert!(
        done.stdout().starts_with("prod.klstate is sound\n"),
        "{}",
        done.stdout()
    );
    let shown = sealed
        .kl(&["archive", "show", "prod.klstate"])
        .expect(0)
        .stdout();
    for text in [
        "prod of ws_0123456789ab",
        "first = 1",
        "VERSION",
        "serial 3",
        "ann",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    assert!(!shown.contains("two"), "a value of the state: {shown}");
    let json = sealed
        .kl(&["archive", "verify", "prod.klstate", "--json"])
        .expect(0)
        .stdout();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["counts"]["versions"], 3);
    assert_eq!(json["origin"]["status"], "foreign");
}

#[test]
fn a_key_demands_its_signature() {
    let key = signer(1).public_key().to_base64();
    let other = signer(2).public_key().to_base64();
    let sealed = Sealed::new()
        .file("signed.klstate", packed(&history(), Some(&signer(1))))
        .file("unsigned.klstate", packed(&history(), None));
    let verify = |file: &str, key: &str| sealed.kl(&["archive", "verify", file, "--key", key]);
    verify("signed.klstate", &key).expect(0);
    verify("signed.klstate", &other)
        .expect(1)
        .says("signature_foreign");
    verify("unsigned.klstate", &key)
        .expect(1)
        .says("signature_missing");
    verify("signed.klstate", "AAAA")
        .expect(2)
        .says("no public key");
}

#[test]
fn a_flipped_byte_is_refused_by_every_command_with_its_code() {
    let mut bytes = packed(&history(), Some(&signer(1)));
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    let sealed = Sealed::new().file("bad.klstate", bytes);
    for arguments in [
        &["archive", "verify", "bad.klstate"][..],
        &["archive", "show", "bad.klstate"],
        &["archive", "extract", "bad.klstate", "-o", "out"],
        &["archive", "extract", "bad.klstate", "--all", "all"],
        &["archive", "diff", "bad.klstate", "bad.klstate"],
    ] {
        let stderr = sealed.kl(arguments).expect(1).stderr();
        assert!(stderr.contains("bad.klstate is refused ("), "{stderr}");
    }
    assert!(!sealed.path("out").exists());
    assert!(!sealed.path("all").exists());
    sealed.kl(&["archive", "verify", "none.klstate"]).expect(1);
}

#[test]
fn documents_come_out_byte_for_byte() {
    let documents = history();
    let sealed = Sealed::new().file("prod.klstate", packed(&documents, None));
    for (version, wanted) in [("1", 0), ("2", 1), ("head", 2), ("first", 0)] {
        let done = sealed
            .kl(&["archive", "extract", "prod.klstate", "--version", version])
            .expect(0);
        assert_eq!(done.0.stdout, documents[wanted], "version {version}");
    }
    sealed
        .kl(&[
            "archive",
            "extract",
            "prod.klstate",
            "--version",
            "2",
            "-o",
            "two",
        ])
        .expect(0)
        .says("wrote version 2");
    assert_eq!(std::fs::read(sealed.path("two")).unwrap(), documents[1]);
    let json = sealed
        .kl(&[
            "archive",
            "extract",
            "prod.klstate",
            "--all",
            "all",
            "--json",
        ])
        .expect(0)
        .stdout();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["files"].as_array().unwrap().len(), 3);
    for (index, document) in documents.iter().enumerate() {
        let file = sealed.path(&format!("all/{}.tfstate", index + 1));
        assert_eq!(&std::fs::read(file).unwrap(), document);
    }
    sealed
        .kl(&["archive", "extract", "prod.klstate", "--version", "9"])
        .expect(2)
        .says("holds no version 9");
}

#[test]
fn archives_and_versions_are_compared_without_values() {
    let mut other = history();
    other[2] = document(3, "secret", false);
    let sealed = Sealed::new()
        .file("a.klstate", packed(&history(), None))
        .file("b.klstate", packed(&history(), Some(&signer(1))))
        .file("c.klstate", packed(&other, None));
    let diff = |arguments: &[&str]| {
        let mut all = vec!["archive", "diff"];
        all.extend(arguments);
        sealed.kl(&all).expect(0).stdout()
    };
    assert!(diff(&["a.klstate", "b.klstate"]).contains("hold the same history"));
    assert_eq!(
        diff(&["a.klstate", "c.klstate"]),
        "version 3 differs in sha256\n"
    );
    assert_eq!(
        diff(&["a.klstate", "--from", "first", "--to", "2"]),
        "+ terraform_data.b\n~ terraform_data.a\n"
    );
    assert_eq!(
        diff(&["a.klstate", "--from", "2"]),
        "versions 2 and 3 hold the same resources and outputs\n"
    );
    sealed.kl(&["archive", "diff", "a.klstate"]).expect(2);
}
