//! What goes in comes out: every version's bytes, metadata and rows.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails its test")]

mod support;

use archive::{Frame, Origin, Policy, Verified, read_versions, verify};
use support::rows::RowStore;
use support::states::{Pieces, changed_in_every_way, corpus, small, with_serial};
use support::{TestHistory, trusted};

const LIMIT: u64 = 1 << 30;

/// Verifies the archive of a history and holds everything that comes out against what went in.
fn round_trip(history: &TestHistory) -> Verified {
    let archive = history.export();
    let trusted = trusted();
    let policy = Policy::trusting(&trusted, LIMIT);
    let verified = verify(&archive[..], &policy).unwrap();
    assert!(matches!(verified.origin, Origin::Trusted { .. }));
    assert_eq!(verified.tags, history.tags);
    assert_eq!(verified.runs, history.runs);
    let mut store = RowStore::default();
    let mut versions = read_versions(&archive[..], &verified, &policy).unwrap();
    let mut expected = history.versions.iter();
    while let Some(version) = versions.next_version().unwrap() {
        let source = expected.next().unwrap();
        let json = |meta| serde_json::to_value(meta).unwrap();
        assert_eq!(json(&version.entry.meta), json(&source.meta));
        let mut document = Vec::new();
        version.write_document(&mut document).unwrap();
        assert!(
            document == source.document,
            "version {} differs",
            source.meta.seq
        );
        store.import(&version);
        store.check(&version, &source.document);
    }
    assert!(expected.next().is_none());
    verified
}

#[test]
fn every_state_of_the_corpus_changed_in_every_way() {
    for (name, document) in corpus() {
        let documents = changed_in_every_way(&document);
        let verified = round_trip(&TestHistory::of(documents));
        assert!(verified.counts.versions >= 3, "{name}");
    }
}

#[test]
fn the_whole_corpus_as_one_history() {
    let documents = corpus().into_iter().flat_map(|(_, document)| {
        let canonical = Pieces::read(&document).map(|pieces| pieces.render());
        std::iter::once(document).chain(canonical)
    });
    let history = TestHistory::of(documents);
    let verified = round_trip(&history);
    assert!(verified.counts.deltas > 0 && verified.counts.key_frames > 10);
}

#[test]
fn frames_are_where_the_format_wants_them() {
    let mut documents: Vec<_> = (1..=230).map(|serial| small(serial, 3)).collect();
    documents[149] = b"{\"version\":4,\"serial\":150,\"lineage\":\"3f6f0e4f-9f0e-4f57-8d3a-2a7c0c5c1d11\",\"resources\":[]}".to_vec();
    let history = TestHistory::of(documents)
        .tag("before-upgrade", 17)
        .tag("v2", 160);
    let verified = round_trip(&history);
    let keys: Vec<u64> = verified
        .versions
        .iter()
        .filter(|entry| entry.frame == Frame::Key)
        .map(|entry| entry.meta.seq)
        .collect();
    assert_eq!(keys, [1, 17, 101, 150, 151, 160, 201, 230]);
    assert_eq!(verified.counts.deltas, 222);
}

#[test]
fn gaps_falling_serials_and_two_lineages_keep_their_order() {
    let other = String::from_utf8(small(3, 2))
        .unwrap()
        .replace("3f6f0e4f", "00000000")
        .into_bytes();
    let documents = [
        (1, small(9, 2)),
        (4, small(9, 3)),
        (5, small(4, 2)),
        (9, other.clone()),
        (40, with_serial(&other, 0)),
        (41, with_serial(&other, u64::MAX)),
        (1 << 40, small(4, 1)),
    ];
    let mut history = TestHistory::default();
    for (seq, document) in documents {
        history.push(seq, document);
    }
    let verified = round_trip(&history.run("run_1", &[4, 9]).run("run_2", &[]));
    let order: Vec<u64> = verified
        .versions
        .iter()
        .map(|entry| entry.meta.seq)
        .collect();
    assert_eq!(order, [1, 4, 5, 9, 40, 41, 1 << 40]);
    assert_eq!(verified.info.state.serial, Some(4));
}

#[test]
fn a_single_version_is_an_archive() {
    let verified = round_trip(&TestHistory::of([small(1, 0)]));
    assert_eq!(TestHistory::frames(&verified), [Frame::Key]);
}

#[test]
fn check_results_that_stay_are_written_once() {
    let mut pieces = Pieces::read(&small(1, 2)).unwrap();
    let checks = format!("[\n    {}\n  ]", vec!["{}"; 5_000].join(",\n    "));
    let document = String::from_utf8(pieces.render()).unwrap().replace(
        "\"check_results\": null",
        &format!("\"check_results\": {checks}"),
    );
    let mut documents = Vec::new();
    pieces = Pieces::read(document.as_bytes()).unwrap();
    for serial in 1..=6 {
        pieces.header = pieces.header.with_serial(serial);
        pieces.change(1, serial as usize);
        documents.push(pieces.render());
    }
    let history = TestHistory::of(documents);
    round_trip(&history);
    let unpacked = support::pack::Unpacked::of(&history.export());
    let sizes: Vec<usize> = (2..=5)
        .map(|seq| unpacked.get(&format!("versions/{seq}.delta.jsonl")).len())
        .collect();
    assert!(sizes[0] > checks.len() && sizes[1] < 3_000, "{sizes:?}");
    assert!(sizes[2..].iter().all(|size| *size < 4_000), "{sizes:?}");
}

#[test]
fn exporting_what_was_imported_gives_the_same_content() {
    let history = TestHistory::of((1..=5).map(|serial| small(serial, 4))).tag("prod", 3);
    let first = round_trip(&history);
    let mut again = history.clone();
    for version in &mut again.versions {
        version.meta.id = format!("ver_{:032x}", 77 + version.meta.seq);
        version.meta.provenance =
            serde_json::from_str("{\"imported_from\":\"elsewhere\"}").unwrap();
    }
    let second = round_trip(&again);
    assert_eq!(first.content_sha256, second.content_sha256);
    assert!(archive::diff_archives(&first, &second).is_empty());
    again.versions[1].meta.created_by = "someone else".to_owned();
    assert_ne!(round_trip(&again).content_sha256, first.content_sha256);
}

#[test]
fn equal_histories_give_equal_files() {
    let history = TestHistory::of((1..=3).map(|serial| small(serial, 4)));
    assert!(history.export() == history.export());
}
