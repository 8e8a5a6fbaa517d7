//! I10: all read the same bytes, rows rendered are what is stored, and a read sees one version, the newest.

use std::collections::BTreeMap;

use super::View;
use super::view::{End, Operation};
use crate::history::Call;
use crate::ledger::Row;

pub(super) fn reads_agree(view: &View<'_>) -> Vec<String> {
    let mut found = documents(view);
    found.extend(snapshots(view));
    found
}

fn documents(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for read in &view.ledger.documents {
        let name = view.name(&read.state_id);
        if read.plain_sha256 != read.history_sha256 {
            found.push(format!("{name}: two ways to read it give different bytes"));
        }
        let mut versions = view.ledger.versions.iter();
        let Some(version) = versions.find(|it| it.state_id == read.state_id && it.seq == read.seq)
        else {
            continue;
        };
        if version
            .sha256
            .as_ref()
            .is_some_and(|sha256| *sha256 != read.plain_sha256)
        {
            found.push(format!(
                "{name}: version {} has another digest than its bytes",
                read.seq
            ));
        }
        if version.rows_digest != read.rows_digest {
            found.push(format!(
                "{name}: version {} has another digest than its rows",
                read.seq
            ));
        }
    }
    found
}

/// Each read shows values that stood together, and none that had been replaced before it began.
fn snapshots(view: &View<'_>) -> Vec<String> {
    // The first moment at which somebody knew of a version: an answer that acknowledged one of its values.
    let mut known: BTreeMap<(&str, i64), u64> = BTreeMap::new();
    for operation in view.operations.iter().filter(|it| it.end == End::Ok) {
        let Some((name, writes)) = operation.call.writes() else {
            continue;
        };
        let Some(state) = view.state_named(name) else {
            continue;
        };
        for write in writes {
            let rows = view.history(&state.id, &write.address);
            if let Some(row) = rows.iter().find(|row| row.value == write.value) {
                let at = known.entry((&state.id, row.born_seq)).or_insert(u64::MAX);
                *at = (*at).min(operation.ended_us);
            }
        }
    }
    let reads = view.operations.iter().filter(|it| it.end == End::Ok);
    reads
        .filter_map(|read| torn_or_stale(view, read, &known))
        .collect()
}

fn torn_or_stale(
    view: &View<'_>,
    read: &Operation<'_>,
    known: &BTreeMap<(&str, i64), u64>,
) -> Option<String> {
    let Call::Read { state: name } = read.call else {
        return None;
    };
    let state = view.state_named(name)?;
    // The versions in which all that was seen stood.
    let (mut from, mut until) = (0, i64::MAX);
    for (address, value) in &read.answer.values {
        let rows: &[Row] = view.history(&state.id, address);
        let Some(row) = rows.iter().find(|row| row.value == *value) else {
            return Some(format!(
                "{name} {address}: {} read {value}, which nobody wrote",
                read.client
            ));
        };
        from = from.max(row.born_seq);
        until = until.min(row.dies_seq.unwrap_or(i64::MAX));
    }
    if from >= until {
        return Some(format!(
            "{name}: {} read values that never stood together",
            read.client
        ));
    }
    let newest = known
        .range((&*state.id, 0)..=(&*state.id, i64::MAX))
        .filter(|(_, at)| **at < read.began_us)
        .map(|((_, seq), _)| *seq)
        .max()?;
    (until <= newest).then(|| {
        format!(
            "{name}: {} read what stood before version {until}, although {newest} was known",
            read.client
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::samples::Sample;
    use super::*;

    #[test]
    fn torn_stale_and_invented_reads_are_found() {
        let mut sample = Sample::default();
        sample.row("a0", 1, "x0", "");
        sample.row("a1", 1, "y0", "");
        sample.row("a0", 2, "x1", "x0");
        sample.row("a1", 3, "y1", "y0");
        sample.read_ok(&[("a0", "x1"), ("a1", "y0")]);
        sample.read_ok(&[("a0", "x1"), ("a1", "y1")]);
        assert_eq!(snapshots(&sample.view()), [""; 0]);
        sample.read_ok(&[("a0", "x0"), ("a1", "y1")]);
        sample.read_ok(&[("a0", "nobody's")]);
        assert_eq!(snapshots(&sample.view()).len(), 2);
        let mut sample = Sample::default();
        sample.row("a0", 1, "x0", "");
        sample.row("a0", 2, "x1", "x0");
        sample.push_ok("tf1", "a0", "x1");
        sample.read_ok(&[("a0", "x0")]);
        assert_eq!(snapshots(&sample.view()).len(), 1);
    }

    #[test]
    fn different_bytes_and_rows_are_found() {
        let mut sample = Sample::default();
        sample.hold("r1", 1, 1, None, &[]);
        sample.version(1, "r1", 5);
        sample.document(1, "same", "same", "");
        assert_eq!(documents(&sample.view()), [""; 0]);
        sample.document(1, "one", "other", "rows");
        assert_eq!(documents(&sample.view()).len(), 3);
    }
}
