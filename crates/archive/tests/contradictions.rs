//! Archives that are well-formed and signed, and contradict themselves.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails its test")]

mod support;

use archive::{ArchiveError, Policy, Rule, verify};
use serde_json::{Value, json};
use support::pack::Unpacked;
use support::states::{small, with_serial};
use support::{TestHistory, trusted};

const LIMIT: u64 = 1 << 30;

fn refusal(archive: &[u8]) -> Option<Rule> {
    let trusted = trusted();
    match verify(archive, &Policy::trusting(&trusted, LIMIT)) {
        Ok(_) => None,
        Err(ArchiveError::Refused(refusal)) => Some(refusal.rule),
        Err(other) => panic!("{other:?}"),
    }
}

/// Versions 1 to 5, of which 1 and 5 are key frames; two tags and a run.
fn sample() -> Unpacked {
    let history = TestHistory::of((1..=5).map(|serial| small(serial, 2)))
        .tag("first", 1)
        .tag("last", 5)
        .run("run_1", &[2, 3]);
    Unpacked::of(&history.export())
}

/// What becomes of the sample when it is changed and signed anew.
fn changed(change: impl FnOnce(&mut Unpacked)) -> Option<Rule> {
    let mut unpacked = sample();
    change(&mut unpacked);
    refusal(&unpacked.pack_signed())
}

#[test]
fn the_sample_is_sound() {
    assert_eq!(changed(|_| {}), None);
}

#[test]
fn versions_out_of_order_missing_or_repeated() {
    // Two versions in each other's place.
    let swapped = changed(|archive| {
        let at = archive.position("versions/2.json");
        archive.entries[at..at + 4].rotate_left(2);
    });
    assert_eq!(swapped, Some(Rule::VersionOrder));
    // Newest first.
    let reversed = changed(|archive| archive.entries[1..11].rotate_left(8));
    assert_eq!(reversed, Some(Rule::ArchiveContradiction));
    let missing = changed(|archive| {
        archive.remove("versions/3.json");
        archive.remove("versions/3.delta.jsonl");
    });
    // Its successor's changes may apply all the same; the head then comes one version early.
    assert_eq!(missing, Some(Rule::ArchiveContradiction));
    let last_missing = changed(|archive| {
        archive.remove("versions/5.json");
        archive.remove("versions/5.tfstate.json");
    });
    assert_eq!(last_missing, Some(Rule::EntryOrder));
    let repeated = changed(|archive| {
        let content = archive.get("versions/2.json").to_vec();
        archive.insert_before("versions/3.json", "versions/2.json", &content);
    });
    assert_eq!(repeated, Some(Rule::EntryRepeated));
    let without_document = changed(|archive| drop(archive.remove("versions/2.delta.jsonl")));
    assert_eq!(without_document, Some(Rule::EntryOrder));
    let with_both = changed(|archive| {
        archive.insert_before(
            "versions/2.delta.jsonl",
            "versions/2.tfstate.json",
            &small(2, 2),
        );
    });
    assert_eq!(with_both, Some(Rule::EntryOrder));
    let same_id = changed(|archive| {
        let id = "ver_00000000000000000000000000000001";
        archive.edit("versions/2.json", |meta| meta["id"] = id.into());
    });
    assert_eq!(same_id, Some(Rule::VersionRepeated));
    let other_number =
        changed(|archive| archive.edit("versions/2.json", |meta| meta["seq"] = 3.into()));
    assert_eq!(other_number, Some(Rule::VersionNumber));
}

#[test]
fn every_entry_is_missed() {
    for (name, _) in sample().entries {
        if ["manifest.json", "manifest.sig"].contains(&&*name) {
            let mut unpacked = sample();
            unpacked.remove(&name);
            assert!(refusal(&unpacked.pack()).is_some(), "{name}");
        } else {
            assert!(
                changed(|archive| drop(archive.remove(&name))).is_some(),
                "{name}"
            );
        }
    }
    let mut unsigned = sample();
    unsigned.remove("manifest.sig");
    assert_eq!(refusal(&unsigned.pack()), Some(Rule::EntryMissing));
}

#[test]
fn counts_are_checked_everywhere() {
    let info = |change: fn(&mut Value)| changed(|archive| archive.edit("archive.json", change));
    assert_eq!(
        info(|info| info["entries"] = 99.into()),
        Some(Rule::EntryCount)
    );
    assert_eq!(
        info(|info| info["entries"] = 13.into()),
        Some(Rule::EntryCount)
    );
    assert_eq!(
        info(|info| info["versions"]["count"] = 4.into()),
        Some(Rule::EntryCount)
    );
    assert_eq!(
        info(|info| info["versions"]["count"] = 10_001.into()),
        Some(Rule::TooManyVersions)
    );
    assert_eq!(
        info(|info| info["versions"]["count"] = 0.into()),
        Some(Rule::ArchiveContradiction)
    );
    assert_eq!(
        info(|info| info["versions"]["last"] = 6.into()),
        Some(Rule::ArchiveContradiction)
    );
    assert_eq!(
        info(|info| info["versions"]["first"] = 2.into()),
        Some(Rule::ArchiveContradiction)
    );
    for member in ["head_id", "lineage"] {
        let mut unpacked = sample();
        unpacked.edit("archive.json", |info| {
            info["state"][member] = "other".into()
        });
        assert_eq!(
            refusal(&unpacked.pack_signed()),
            Some(Rule::ArchiveContradiction),
            "{member}"
        );
    }
    assert_eq!(
        info(|info| info["state"]["serial"] = 6.into()),
        Some(Rule::ArchiveContradiction)
    );
    assert_eq!(
        info(|info| info["max_bytes"] = 9_000.into()),
        Some(Rule::OverDeclared)
    );
    for count in [
        "versions",
        "key_frames",
        "deltas",
        "tags",
        "runs",
        "ext",
        "document_bytes",
    ] {
        let mut unpacked = sample();
        unpacked.edit("manifest.json", |manifest| {
            manifest["counts"][count] = 77.into()
        });
        assert_eq!(
            refusal(&unpacked.pack_signed()),
            Some(Rule::ManifestCounts),
            "{count}"
        );
    }
}

#[test]
fn versions_say_what_their_documents_say() {
    let meta = |seq: u64, change: fn(&mut Value)| {
        changed(|archive| archive.edit(&format!("versions/{seq}.json"), change))
    };
    assert_eq!(
        meta(2, |meta| meta["serial"] = 7.into()),
        Some(Rule::DocumentFields)
    );
    assert_eq!(
        meta(1, |meta| meta["serial"] = Value::Null),
        Some(Rule::DocumentFields)
    );
    assert_eq!(
        meta(2, |meta| meta["lineage"] = "other".into()),
        Some(Rule::DocumentFields)
    );
    assert_eq!(
        meta(1, |meta| meta["terraform_version"] = "0.1".into()),
        Some(Rule::DocumentFields)
    );
    let zero = "0".repeat(64);
    for seq in [1, 2] {
        let name = format!("versions/{seq}.json");
        let digest =
            changed(|archive| archive.edit(&name, |meta| meta["sha256"] = zero.clone().into()));
        assert_eq!(digest, Some(Rule::DocumentDigest));
        let size = changed(|archive| archive.edit(&name, |meta| meta["bytes"] = 5.into()));
        assert_eq!(size, Some(Rule::DocumentSize));
    }
    let refused = changed(|archive| {
        archive.set("versions/1.tfstate.json", "[1]");
        archive.edit("versions/1.json", |meta| {
            meta["bytes"] = 3.into();
            meta["sha256"] = tfstate::Digest::of(b"[1]").to_string().into();
        });
    });
    assert_eq!(refused, Some(Rule::DocumentRefused));
}

#[test]
fn what_does_not_render_must_be_marked() {
    let compact = br#"{"version":4,"serial":1,"lineage":"l","outputs":{},"resources":[]}"#;
    let history = TestHistory::of([compact.to_vec(), small(2, 1), small(3, 1), small(4, 1)]);
    let unmark = |archive: &mut Unpacked| {
        archive.edit("versions/1.json", |meta| {
            drop(meta.as_object_mut().unwrap().remove("verbatim"))
        });
    };
    let mut unpacked = Unpacked::of(&history.export());
    unmark(&mut unpacked);
    assert_eq!(
        refusal(&unpacked.pack_signed()),
        Some(Rule::DocumentNotRendered)
    );
    let encrypted = br#"{"serial":1,"lineage":"l","encrypted_data":"x","encryption_version":"v0"}"#;
    let mut unpacked = Unpacked::of(&TestHistory::of([encrypted.to_vec(), small(2, 1)]).export());
    assert_eq!(refusal(&unpacked.clone().pack_signed()), None);
    unmark(&mut unpacked);
    assert_eq!(
        refusal(&unpacked.pack_signed()),
        Some(Rule::DocumentNotRendered)
    );
}

#[test]
fn key_frames_stand_where_they_must() {
    let delta = |seq: u64| {
        let mut unpacked = sample();
        let name = format!("versions/{seq}.tfstate.json");
        let at = unpacked.position(&name);
        unpacked.entries[at].0 = format!("versions/{seq}.delta.jsonl");
        unpacked.edit(&format!("versions/{seq}.json"), |meta| {
            meta["frame"] = "delta".into()
        });
        refusal(&unpacked.pack_signed())
    };
    assert_eq!(delta(1), Some(Rule::KeyFrameRequired));
    assert_eq!(delta(5), Some(Rule::KeyFrameRequired));
    let tagged =
        changed(|archive| archive.edit("tags.json", |tags| tags["tags"][0]["seq"] = 2.into()));
    assert_eq!(tagged, Some(Rule::KeyFrameRequired));
    let verbatim =
        changed(|archive| archive.edit("versions/2.json", |meta| meta["verbatim"] = true.into()));
    assert_eq!(verbatim, Some(Rule::KeyFrameRequired));
}

#[test]
fn tags_and_runs_name_what_is_there() {
    let tags = |change: fn(&mut Value)| changed(|archive| archive.edit("tags.json", change));
    assert_eq!(
        tags(|tags| tags["tags"][0]["seq"] = 9.into()),
        Some(Rule::TagDangling)
    );
    assert_eq!(
        tags(|tags| tags["tags"][0]["name"] = "last".into()),
        Some(Rule::TagRepeated)
    );
    assert_eq!(tags(|tags| tags["tags"] = Value::Null), Some(Rule::BadJson));
    let runs = |change: fn(&mut Value)| changed(|archive| archive.edit("runs.json", change));
    assert_eq!(
        runs(|runs| runs["runs"][0]["versions"] = json!([2, 4])),
        Some(Rule::RunDangling)
    );
    assert_eq!(
        runs(|runs| runs["runs"][0]["versions"] = json!([77])),
        Some(Rule::RunDangling)
    );
    assert_eq!(
        runs(|runs| runs["runs"][0]["id"] = "run_2".into()),
        Some(Rule::RunDangling)
    );
    let twice = runs(|runs| {
        let run = runs["runs"][0].clone();
        runs["runs"].as_array_mut().unwrap().push(run);
    });
    assert_eq!(twice, Some(Rule::RunRepeated));
    assert_eq!(
        changed(|archive| drop(archive.remove("runs.json"))),
        Some(Rule::ManifestCounts)
    );
}

#[test]
fn the_manifest_lists_exactly_the_entries() {
    let manifest = |change: fn(&mut Value)| {
        let mut unpacked = sample();
        unpacked.edit("manifest.json", change);
        unpacked.sign_with(&[7; 32]);
        refusal(&unpacked.pack())
    };
    assert_eq!(manifest(|_| {}), None);
    assert_eq!(
        manifest(|manifest| drop(manifest["entries"].as_array_mut().unwrap().pop())),
        Some(Rule::ManifestEntries)
    );
    assert_eq!(
        manifest(|manifest| manifest["entries"].as_array_mut().unwrap().swap(3, 5)),
        Some(Rule::ManifestEntries)
    );
    assert_eq!(
        manifest(|manifest| {
            let more = json!({"name": "manifest.sig", "bytes": 1, "sha256": "0".repeat(64)});
            manifest["entries"].as_array_mut().unwrap().push(more);
        }),
        Some(Rule::ManifestEntries)
    );
    assert_eq!(
        manifest(|manifest| manifest["entries"][2]["bytes"] = 1.into()),
        Some(Rule::ManifestDigest)
    );
    assert_eq!(
        manifest(|manifest| manifest["entries"][2]["sha256"] = "0".repeat(64).into()),
        Some(Rule::ManifestDigest)
    );
    assert_eq!(
        manifest(|manifest| manifest["minor"] = 3.into()),
        Some(Rule::ArchiveContradiction)
    );
    assert_eq!(
        manifest(|manifest| manifest["entries"][0]["sha256"] = "XY".into()),
        Some(Rule::BadJson)
    );
}

#[test]
fn other_formats_and_majors_are_named() {
    let format = |text: &'static str| {
        let mut unpacked = sample();
        unpacked.edit("archive.json", |info| info["format"] = text.into());
        let trusted = trusted();
        let found = verify(
            &unpacked.pack_signed()[..],
            &Policy::trusting(&trusted, LIMIT),
        );
        let Err(ArchiveError::Refused(refusal)) = found else {
            panic!("not refused")
        };
        refusal
    };
    let major = format("kilolock-state-archive/v2");
    assert_eq!(major.rule, Rule::UnknownMajor);
    assert!(
        major.detail.contains("kilolock-state-archive/v1"),
        "{major}"
    );
    assert_eq!(format("someone-elses/v1").rule, Rule::NotAnArchive);
    assert_eq!(
        changed(|archive| archive.set("archive.json", "{}")),
        Some(Rule::BadJson)
    );
    assert_eq!(
        changed(|archive| archive.set("archive.json", "{\"format\":1}")),
        Some(Rule::BadJson)
    );
}

#[test]
fn a_later_minor_may_bring_entries_and_members() {
    let later = |declared: Value, change: fn(&mut Unpacked)| {
        let mut unpacked = sample();
        unpacked.edit("archive.json", |info| {
            info["minor"] = 3.into();
            info["colour"] = json!({"of": ["the", "sky"]});
            info["entries"] = (14 + declared.as_array().unwrap().len()).into();
            info["ext"] = declared;
        });
        unpacked.edit("versions/2.json", |meta| meta["mood"] = "good".into());
        unpacked.edit("manifest.json", |manifest| {
            manifest["minor"] = 3.into();
            manifest["counts"]["ext"] = 2.into();
        });
        unpacked.insert_before("manifest.json", "ext/graph.bin", &[0xff; 3000]);
        unpacked.insert_before("manifest.json", "ext/labels.json", b"{}");
        change(&mut unpacked);
        refusal(&unpacked.pack_signed())
    };
    let both = || json!(["ext/graph.bin", "ext/labels.json"]);
    assert_eq!(later(both(), |_| {}), None);
    assert_eq!(
        later(json!(["ext/graph.bin"]), |_| {}),
        Some(Rule::ExtensionUndeclared)
    );
    assert_eq!(
        later(json!(["ext/labels.json", "ext/graph.bin"]), |_| {}),
        Some(Rule::ExtensionUndeclared)
    );
    assert_eq!(
        later(json!(["ext/a", "ext/a"]), |_| {}),
        Some(Rule::ExtensionUndeclared)
    );
    assert_eq!(
        later(json!(["tags.json", "ext/a"]), |_| {}),
        Some(Rule::ExtensionUndeclared)
    );
    assert_eq!(
        later(both(), |archive| drop(archive.remove("ext/labels.json"))),
        Some(Rule::EntryMissing)
    );
    assert_eq!(
        later(both(), |archive| archive
            .edit("archive.json", |info| info["minor"] = 0.into())),
        Some(Rule::ExtensionUndeclared)
    );
    let mut unsigned = sample();
    unsigned.insert_before("manifest.json", "ext/stowaway", b"{}");
    assert_eq!(
        refusal(&unsigned.pack_signed()),
        Some(Rule::ExtensionUndeclared)
    );
}

#[test]
fn serial_and_time_do_not_decide_the_order() {
    let mut history = TestHistory::of([small(5, 1), small(2, 1), with_serial(&small(9, 2), 2)]);
    history.versions[2].meta.created_at = support::at(-9_000);
    assert_eq!(refusal(&history.export()), None);
}
