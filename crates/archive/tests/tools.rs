//! What can be done with an archive without a server.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails its test")]

mod support;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::rc::Rc;

use archive::{
    ArchiveError, ChangedVersion, Policy, Rule, diff_archives, diff_versions, extract_all,
    extract_version, read_versions, verify,
};
use support::TestHistory;
use support::states::{Pieces, small};

fn policy() -> Policy<'static> {
    Policy::any_origin(1 << 30)
}

fn history() -> TestHistory {
    let mut later = Pieces::read(&small(2, 4)).unwrap();
    later.change(1, 1);
    later.rows.remove(4);
    later.set_output("id", "\"same\"");
    later.set_output("new", "1");
    TestHistory::of([
        small(1, 4),
        later.render(),
        small(3, 5),
        b"{\"version\":3}".to_vec(),
    ])
}

#[test]
fn any_version_can_be_taken_out() {
    let history = history();
    let archive = history.export();
    let verified = verify(&archive[..], &policy()).unwrap();
    for version in &history.versions {
        let mut document = Vec::new();
        extract_version(
            &archive[..],
            &verified,
            &policy(),
            version.meta.seq,
            &mut document,
        )
        .unwrap();
        assert!(document == version.document);
    }
    let missing = extract_version(&archive[..], &verified, &policy(), 9, &mut Vec::new());
    assert!(matches!(
        missing,
        Err(ArchiveError::NoSuchVersion { seq: 9 })
    ));
}

/// A file of a directory that is a map.
struct File(u64, Rc<RefCell<BTreeMap<u64, Vec<u8>>>>);

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.1.borrow_mut().entry(self.0).or_default().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn all_versions_can_be_taken_out_at_once() {
    let history = history();
    let archive = history.export();
    let verified = verify(&archive[..], &policy()).unwrap();
    let files = Rc::new(RefCell::new(BTreeMap::new()));
    let open = |entry: &archive::VersionEntry| Ok(File(entry.meta.seq, Rc::clone(&files)));
    assert_eq!(
        extract_all(&archive[..], &verified, &policy(), open).unwrap(),
        4
    );
    let expected: BTreeMap<u64, Vec<u8>> = history
        .versions
        .iter()
        .map(|version| (version.meta.seq, version.document.clone()))
        .collect();
    assert!(*files.borrow() == expected);
    let full = extract_all(&archive[..], &verified, &policy(), |_| {
        Err::<Vec<u8>, _>(std::io::Error::other("disk full"))
    });
    assert!(matches!(full, Err(ArchiveError::Write(_))));
}

#[test]
fn two_versions_are_compared_by_address() {
    let archive = history().export();
    let verified = verify(&archive[..], &policy()).unwrap();
    let diff = diff_versions(&archive[..], &verified, &policy(), 1, 2).unwrap();
    assert_eq!(diff.changed, ["aws_thing.n0000[1]"]);
    assert_eq!(diff.removed, ["aws_thing.n0002[0]"]);
    assert_eq!(diff.outputs_added, ["new"]);
    assert_eq!(diff.outputs_changed, ["id"]);
    let back = diff_versions(&archive[..], &verified, &policy(), 2, 1).unwrap();
    assert_eq!(
        (back.added, back.outputs_removed),
        (diff.removed, diff.outputs_added)
    );
    assert!(
        diff_versions(&archive[..], &verified, &policy(), 3, 4)
            .unwrap()
            .opaque
    );
    let same = diff_versions(&archive[..], &verified, &policy(), 2, 2).unwrap();
    assert_eq!(same, archive::VersionDiff::default());
}

#[test]
fn two_archives_are_compared_by_what_they_hold() {
    let left = history().tag("a", 1).tag("b", 3);
    let mut right = history().tag("a", 3).tag("c", 1);
    right.versions.truncate(3);
    right.versions[1].meta.created_by = "other".to_owned();
    let verified = |history: &TestHistory| verify(&history.export()[..], &policy()).unwrap();
    let diff = diff_archives(&verified(&left), &verified(&right));
    assert_eq!(
        (&diff.only_left[..], &diff.only_right[..]),
        (&[4][..], &[][..])
    );
    let changed = ChangedVersion {
        seq: 2,
        members: vec!["created_by"],
    };
    assert_eq!(diff.changed, [changed]);
    assert_eq!(diff.tags, ["a", "b", "c"]);
}

#[test]
fn a_file_that_changed_after_it_was_verified_is_refused() {
    let archive = history().export();
    let verified = verify(&archive[..], &policy()).unwrap();
    let mut other = history();
    other.versions[1].meta.created_by = "someone else".to_owned();
    let other = other.export();
    let mut versions = read_versions(&other[..], &verified, &policy()).unwrap();
    assert!(versions.next_version().unwrap().is_some());
    let found = versions.next_version().map(|version| version.is_some());
    assert_eq!(found.unwrap_err().rule(), Some(Rule::ChangedSinceVerified));
}

#[test]
fn a_report_is_plain_json() {
    let archive = history().tag("prod", 1).run("run_1", &[2]).export();
    let report = serde_json::to_value(verify(&archive[..], &policy()).unwrap()).unwrap();
    assert_eq!(report["format"], "kilolock-state-archive/v1");
    assert_eq!(report["origin"]["status"], "foreign");
    assert_eq!(report["history"][1]["frame"], "delta");
    assert_eq!(report["history"][3]["verbatim"], true);
    assert_eq!(report["counts"]["versions"], 4);
    assert_eq!(report["tags"][0]["name"], "prod");
}
