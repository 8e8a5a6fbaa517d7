//! Deltas that do not say what changed, in archives that are otherwise sound and signed.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails its test")]

mod support;

use archive::{ArchiveError, Policy, Rule, verify};
use serde_json::{Value, json};
use support::pack::Unpacked;
use support::states::{Pieces, small};
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

/// A sound delta, for the rules a delta can break.
fn delta(change: impl FnOnce(&mut Vec<Value>)) -> Option<Rule> {
    let mut later = Pieces::read(&small(2, 4)).unwrap();
    later.change(1, 1);
    later.rows.remove(4);
    let history = TestHistory::of([small(1, 4), later.render(), small(3, 4)]);
    let mut unpacked = Unpacked::of(&history.export());
    let name = "versions/2.delta.jsonl";
    let text = String::from_utf8(unpacked.get(name).to_vec()).unwrap();
    let mut lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let ops: Vec<&str> = lines
        .iter()
        .map(|line| line["op"].as_str().unwrap())
        .collect();
    assert_eq!(ops, ["header", "output_set", "replace", "remove"]);
    change(&mut lines);
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    unpacked.set(name, text);
    refusal(&unpacked.pack_signed())
}

#[test]
fn deltas_are_read_strictly() {
    assert_eq!(delta(|_| {}), None);
    assert_eq!(delta(Vec::clear), Some(Rule::DeltaLine));
    assert_eq!(delta(|lines| drop(lines.remove(0))), Some(Rule::DeltaOrder));
    assert_eq!(
        delta(|lines| lines.push(lines[0].clone())),
        Some(Rule::DeltaOrder)
    );
    assert_eq!(delta(|lines| lines.swap(2, 3)), Some(Rule::DeltaOrder));
    assert_eq!(delta(|lines| lines.swap(1, 2)), Some(Rule::DeltaOrder));
    assert_eq!(
        delta(|lines| lines.push(lines[3].clone())),
        Some(Rule::DeltaOrder)
    );
    assert_eq!(
        delta(|lines| lines[2]["op"] = "upsert".into()),
        Some(Rule::DeltaLine)
    );
    assert_eq!(
        delta(|lines| lines[2]["more"] = 1.into()),
        Some(Rule::DeltaLine)
    );
    assert_eq!(
        delta(|lines| lines[2]["at"] = "2".into()),
        Some(Rule::DeltaLine)
    );
    let blockless = delta(|lines| drop(lines[2].as_object_mut().unwrap().remove("block")));
    assert_eq!(blockless, Some(Rule::DeltaLine));
}

#[test]
fn deltas_change_what_is_there() {
    assert_eq!(
        delta(|lines| lines[2]["at"] = 0.into()),
        Some(Rule::DeltaPlace)
    );
    assert_eq!(
        delta(|lines| lines[3]["at"] = 8.into()),
        Some(Rule::DeltaPlace)
    );
    assert_eq!(
        delta(|lines| lines[3]["at"] = u64::MAX.into()),
        Some(Rule::DeltaPlace)
    );
    assert_eq!(
        delta(|lines| lines[3]["at"] = 5.into()),
        Some(Rule::DeltaPlace)
    );
    assert_eq!(
        delta(|lines| lines[2]["address"] = "aws_thing.n0000[7]".into()),
        Some(Rule::DeltaPlace)
    );
    assert_eq!(
        delta(|lines| lines[2]["deposed"] = "00000000".into()),
        Some(Rule::DeltaPlace)
    );
    assert_eq!(
        delta(|lines| lines[2]["op"] = "insert".into()),
        Some(Rule::DeltaPlace)
    );
    let no_output = json!({"op": "output_gone", "name": "none"});
    assert_eq!(
        delta(|lines| lines.insert(2, no_output)),
        Some(Rule::DeltaPlace)
    );
    let no_member = |lines: &mut Vec<Value>| lines[0]["members"][3][1] = Value::Null;
    assert_eq!(delta(no_member), Some(Rule::DeltaPlace));
    assert_eq!(delta(|lines| drop(lines.pop())), Some(Rule::DocumentSize));
    assert_eq!(
        delta(|lines| drop(lines.remove(2))),
        Some(Rule::DocumentSize)
    );
}

#[test]
fn the_pieces_of_a_delta_are_rows_and_no_more() {
    let body = |text: &'static str| delta(move |lines| lines[2]["body"] = text.into());
    assert_eq!(body("{} , {}"), Some(Rule::DeltaRows));
    assert_eq!(
        body("{}\n      ]\n    },\n    {\n      \"type\": \"x\""),
        Some(Rule::DeltaRows)
    );
    assert_eq!(body("null"), Some(Rule::DeltaRows));
    assert_eq!(body(""), Some(Rule::DeltaRows));
    assert_eq!(body("{\"index_key\": 1.5e300}"), Some(Rule::DeltaRows));
    let block = |text: &'static str| delta(move |lines| lines[2]["block"] = text.into());
    assert_eq!(block("\"mode\": \"managed\""), Some(Rule::DeltaRows));
    assert_eq!(
        block(
            "\"mode\": \"managed\",\n      \"type\": \"t\",\n      \"name\": \"n\",\n      \"instances\": []"
        ),
        Some(Rule::DeltaRows)
    );
    assert_eq!(
        delta(|lines| lines[1]["body"] = "{}, \"x\": {}".into()),
        Some(Rule::DeltaRows)
    );
    assert_eq!(
        delta(|lines| lines[1]["name"] = "other".into()),
        Some(Rule::DeltaRows)
    );
    assert_eq!(
        delta(|lines| lines[1]["token"] = "\"other\"".into()),
        Some(Rule::DeltaRows)
    );
    let member = |text: &'static str| delta(move |lines| lines[0]["members"][2][1] = text.into());
    assert_eq!(member("2,\n  \"more\": 1"), Some(Rule::DocumentSize));
    assert_eq!(member("3"), Some(Rule::DocumentFields));
    assert_eq!(member("x"), Some(Rule::DeltaRows));
}
