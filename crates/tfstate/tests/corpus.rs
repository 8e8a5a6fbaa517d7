//! Real and hand-made state documents: what Terraform accepts is read, and what it wrote is
//! reproduced without keeping a copy.

mod support;

use support::{canonical, corpus_file, generated, shared, state};
use tfstate::{Document, OpaqueReason, Refusal, RowKind, RowsDigest, parse};

/// One line of INDEX.md.
struct Entry {
    name: String,
    bytes: Vec<u8>,
    accepted: bool,
    /// Lines `terraform state list` prints: one per current instance of a managed resource or
    /// data source.
    listed: Option<usize>,
}

fn corpus() -> Vec<Entry> {
    let index =
        std::fs::read_to_string(shared("corpus/states/INDEX.md")).expect("the index is readable");
    let entries: Vec<_> = index
        .lines()
        .filter_map(|line| {
            let name = line.strip_prefix("| ")?.split(' ').next()?;
            let accepted = line.split("| accepted (").nth(1);
            name.ends_with(".tfstate").then(|| Entry {
                name: name.to_owned(),
                bytes: corpus_file(name),
                accepted: accepted.is_some(),
                listed: accepted.and_then(|rest| rest.split(' ').next()?.parse().ok()),
            })
        })
        .collect();
    assert!(entries.len() > 80, "the index lists the corpus");
    entries
}

/// Accepted version 4 documents that Terraform did not write as they are, and what is odd.
const NOT_AS_WRITTEN: &[(&str, &str)] = &[
    ("001", "fixture without check_results, indented by hand"),
    ("002", "fixture, indented by hand"),
    ("003", "fixture, indented by hand"),
    ("004", "no final newline"),
    ("012", "fixture, resources out of order"),
    ("022", "fixture, four-space indentation"),
    ("025", "fixture, resources out of order"),
    ("053", "four-space indentation"),
    ("054", "two final newlines"),
    ("055", "two final newlines"),
    ("060", "resources out of order"),
    ("074", "no final newline"),
    ("075", "no final newline"),
    ("089", "edited names, resources out of order"),
    ("205", "CRLF"),
    ("206", "compact"),
    ("207", "tabs"),
    ("213", "hand-made"),
    ("215", "unsorted"),
];

#[test]
fn whatever_terraform_accepts_is_read() {
    for entry in corpus().iter().filter(|entry| entry.accepted) {
        match parse(&entry.bytes) {
            Ok(Document::State(state)) => {
                // Terraform leaves out the one instance of 015, whose provider it cannot read.
                if !entry.name.starts_with("015") {
                    let mut listed: Vec<_> = state
                        .instances
                        .iter()
                        .filter(|row| row.kind != RowKind::Shell)
                        .map(|row| state.address(row).to_string())
                        .collect();
                    listed.dedup();
                    assert_eq!(Some(listed.len()), entry.listed, "{}", entry.name);
                }
            }
            Ok(Document::Opaque(opaque)) => assert!(
                matches!(opaque.reason, OpaqueReason::OlderVersion(1..=3)),
                "{}: {:?}",
                entry.name,
                opaque.reason
            ),
            Err(refusal) => panic!("{}: {refusal}", entry.name),
        }
    }
}

#[test]
fn what_is_no_document_is_refused_with_the_reason() {
    for entry in corpus().iter().filter(|entry| !entry.accepted) {
        let outcome = parse(&entry.bytes);
        let code = outcome.as_ref().err().map(Refusal::code);
        let expected = match &entry.name[..3] {
            "008" => Some("empty_document"),
            "042" | "065" | "211" | "212" => Some("not_json"),
            "208" => Some("byte_order_mark"),
            "214" => Some("duplicate_address"),
            "217" => Some("serial_out_of_range"),
            // Terraform refuses values this crate does not interpret.
            _ => None,
        };
        assert_eq!(code, expected, "{}", entry.name);
    }
    let duplicate = parse(&corpus_file("214-made-duplicate-resource.tfstate"))
        .map(|_| ())
        .map_err(|refusal| refusal.to_string());
    assert_eq!(
        duplicate,
        Err("the document holds terraform_data.child more than once".to_owned())
    );
}

#[test]
fn what_terraform_wrote_is_reproduced_from_rows() {
    for entry in corpus().iter().filter(|entry| entry.accepted) {
        let Ok(Document::State(state)) = parse(&entry.bytes) else {
            continue;
        };
        let odd = NOT_AS_WRITTEN
            .iter()
            .find(|(number, _)| entry.name.starts_with(number));
        assert_eq!(
            state.reproduces(&entry.bytes),
            odd.is_none(),
            "{}: {odd:?}",
            entry.name
        );
        assert_eq!(
            state.render() == entry.bytes,
            odd.is_none(),
            "{}",
            entry.name
        );
        if odd.is_none() {
            let rendered = canonical(&entry.bytes);
            assert_eq!(
                rendered, state,
                "{} is in rendered form already",
                entry.name
            );
        }
    }
}

#[test]
fn a_rendered_document_is_the_same_state() {
    for entry in corpus() {
        let Ok(Document::State(posted)) = parse(&entry.bytes) else {
            continue;
        };
        let document = posted.render();
        let again = state(&document);
        assert!(again.reproduces(&document), "{}", entry.name);
        assert_eq!(again.rows_digest(), posted.rows_digest(), "{}", entry.name);
        assert_eq!(again.header, posted.header, "{}", entry.name);
        assert_eq!(
            again.instances.len(),
            posted.instances.len(),
            "{}",
            entry.name
        );
    }
}

#[test]
fn other_white_space_gives_the_same_rows() {
    let plain = |name: &str| String::from_utf8(corpus_file(name)).unwrap();
    let literal = as_python_writes(&plain("201-made-oddkeys-checks.tfstate"));
    let twins = [
        (plain("202-made-deposed.tfstate"), "205-made-crlf.tfstate"),
        (literal, "206-made-compact-nonl.tfstate"),
        (
            plain("202-made-deposed.tfstate"),
            "207-made-tabs-nonl.tfstate",
        ),
    ];
    for (plain, variant) in twins {
        let variant_bytes = corpus_file(variant);
        let (plain_rows, variant_rows) = (state(plain.as_bytes()), canonical(&variant_bytes));
        assert_eq!(plain_rows.instances, variant_rows.instances, "{variant}");
        assert_eq!(plain_rows.outputs, variant_rows.outputs, "{variant}");
        assert_eq!(plain_rows.header, variant_rows.header, "{variant}");
        assert_eq!(
            plain_rows.rows_digest(),
            variant_rows.rows_digest(),
            "{variant}"
        );
        assert!(variant_rows.reproduces(plain.as_bytes()), "{variant}");
        assert!(!variant_rows.reproduces(&variant_bytes), "{variant}");
    }
}

/// 206 was compacted by Python, which also wrote literally what Terraform escapes for HTML and one
/// number with an exponent. Strings and numbers are not touched, so its twin is 201 with those.
fn as_python_writes(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(place) = rest.find('\\') {
        out.push_str(&rest[..place]);
        let (literal, length) = match rest.get(place..place + 6) {
            Some("\\u003c") => ("<", 6),
            Some("\\u003e") => (">", 6),
            Some("\\u0026") => ("&", 6),
            Some("\\u2028") => ("\u{2028}", 6),
            Some("\\u2029") => ("\u{2029}", 6),
            _ => (&rest[place..place + 2], 2),
        };
        out.push_str(literal);
        rest = &rest[place + length..];
    }
    (out + rest).replace("0.000001", "1e-06")
}

#[test]
fn order_in_the_document_does_not_matter() {
    let (sorted, unsorted) = (
        corpus_file("204-made-tainted.tfstate"),
        corpus_file("215-made-unsorted.tfstate"),
    );
    let (sorted, unsorted) = (state(&sorted), state(&unsorted));
    let places = |state: &tfstate::State<'_>| -> Vec<_> {
        state.instances.iter().map(|row| row.ord.clone()).collect()
    };
    assert_eq!(places(&sorted), places(&unsorted));
}

#[test]
fn a_large_state_is_reproduced_and_a_change_touches_its_rows_only() {
    let before = generated(&["--instances", "2000", "--seed", "4"]);
    let after = generated(&[
        "--instances",
        "2000",
        "--seed",
        "4",
        "--mutate",
        "20",
        "--serial",
        "2",
    ]);
    let before = state(&before);
    let known: std::collections::HashSet<_> = before
        .instances
        .iter()
        .map(|row| (row.ord.clone(), row.digest))
        .collect();
    let mut new = state(&after);
    assert!(new.reproduces(&after));
    let changed = |new: &tfstate::State<'_>| {
        let fresh = |row: &&tfstate::Instance<'_>| !known.contains(&(row.ord.clone(), row.digest));
        new.instances.iter().filter(fresh).count()
    };
    // Mutating may add or drop an instance beside the twenty it rewrites.
    let count = changed(&new);
    assert!((20..60).contains(&count), "{count} rows differ");
    assert_eq!(
        new.canonicalise(|ord, digest| known.contains(&(ord.into(), *digest))),
        0
    );
    assert_eq!(changed(&new), count);

    let mut sum = before.rows_digest();
    let (old_rows, new_rows) = (rows(&before), rows(&new));
    old_rows
        .iter()
        .filter(|row| !new_rows.contains(row))
        .for_each(|row| sum.remove(*row));
    new_rows
        .iter()
        .filter(|row| !old_rows.contains(row))
        .for_each(|row| sum.add(*row));
    assert_eq!(sum, new.rows_digest());
    assert_ne!(sum, RowsDigest::ZERO);
}

fn rows(state: &tfstate::State<'_>) -> std::collections::BTreeSet<tfstate::Digest> {
    let outputs = state.outputs.iter().map(|row| row.digest);
    let parts = state.parts.iter().map(|part| part.digest);
    state
        .instances
        .iter()
        .map(|row| row.digest)
        .chain(outputs)
        .chain(parts)
        .collect()
}

#[test]
fn every_address_prints_and_parses_to_itself() {
    for entry in corpus() {
        let Ok(Document::State(state)) = parse(&entry.bytes) else {
            continue;
        };
        for row in &state.instances {
            let address = state.address(row);
            assert_eq!(address.to_string().parse(), Ok(address), "{}", entry.name);
        }
    }
}

#[test]
fn dependencies_are_configuration_addresses() {
    let bytes = corpus_file("095-eks-errored-311k.tfstate");
    let state = state(&bytes);
    let mut count = 0;
    for row in &state.instances {
        for dependency in state.dependencies(row) {
            let address: tfstate::Address = dependency.parse().unwrap();
            assert_eq!(address.config_address(), dependency);
            count += 1;
        }
    }
    assert!(count > 100, "{count} dependencies");
}
