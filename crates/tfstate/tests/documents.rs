//! Generated documents against trees that are printed the slow, obvious way.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::select;
use support::tree::{self, Tree, member, quoted, raw, text};
use support::{canonical, state};
use tfstate::{Document, Header, Key, RowKind, State, parse};

/// A state before it is written down: blocks by identity, instances by key and deposed key, so
/// that iterating yields Terraform's order.
#[derive(Clone, Debug)]
struct Plan {
    serial: u64,
    extra: Vec<(usize, (String, Tree))>,
    outputs: BTreeMap<String, Tree>,
    blocks: BTreeMap<Identity, Shape>,
    check_results: Option<Tree>,
}

/// Module, mode, type and name.
type Identity = (String, &'static str, String, String);

#[derive(Clone, Debug)]
struct Shape {
    provider: String,
    each: bool,
    instances: BTreeMap<(Option<Key>, Option<String>), Tree>,
}

impl Plan {
    /// The document in Terraform's order.
    fn tree(&self) -> Tree {
        let blocks = self
            .blocks
            .iter()
            .map(|(identity, shape)| block(identity, shape));
        self.with_resources(blocks.collect())
    }

    fn with_resources(&self, blocks: Vec<Tree>) -> Tree {
        let outputs = self.outputs.iter().map(|(name, value)| {
            let body = Tree::Object(vec![
                member("value", value.clone()),
                member("type", text("string")),
            ]);
            member(name, body)
        });
        let mut members = vec![
            member("version", raw("4")),
            member("terraform_version", text("1.11.4")),
            member("serial", raw(&self.serial.to_string())),
            member("lineage", text("some-lineage")),
            member("outputs", Tree::Object(outputs.collect())),
            member("resources", Tree::Array(blocks)),
            member(
                "check_results",
                self.check_results.clone().unwrap_or(raw("null")),
            ),
        ];
        for (place, extra) in &self.extra {
            members.insert(place % (members.len() + 1), extra.clone());
        }
        Tree::Object(members)
    }
}

fn block((module, mode, kind, name): &Identity, shape: &Shape) -> Tree {
    let mut members = Vec::new();
    if !module.is_empty() {
        members.push(member("module", text(module)));
    }
    members.push(member("mode", text(mode)));
    members.push(member("type", text(kind)));
    members.push(member("name", text(name)));
    if shape.each {
        members.push(member("each", text("list")));
    }
    members.push(member("provider", text(&shape.provider)));
    let instances = shape.instances.iter().map(|((key, deposed), attributes)| {
        let mut members = Vec::new();
        match key {
            None => {}
            Some(Key::Int(number)) => members.push(member("index_key", raw(&number.to_string()))),
            Some(Key::Str(value)) => members.push(member("index_key", text(value))),
        }
        if let Some(deposed) = deposed {
            members.push(member("deposed", text(deposed)));
        }
        members.push(member("schema_version", raw("0")));
        members.push(member("attributes", attributes.clone()));
        members.push(member(
            "dependencies",
            Tree::Array(vec![text("a.b"), text("data.c.d")]),
        ));
        Tree::Object(members)
    });
    members.push(member("instances", Tree::Array(instances.collect())));
    Tree::Object(members)
}

fn plan() -> impl Strategy<Value = Plan> {
    let module = select(vec![
        "",
        "module.a",
        "module.a[9]",
        "module.a[10]",
        "module.a[\"x\"].module.b",
    ]);
    let names = || select(vec!["a", "a_b", "ab", "é", "z-1"]).prop_map(str::to_owned);
    let identity = (
        module.prop_map(str::to_owned),
        select(vec!["data", "managed"]),
        names(),
        names(),
    );
    let odd_keys = select(vec!["", "a", "a.b", "\0", "é", "\"", "${x}", "0", "a\nb"]);
    let key = prop_oneof![
        Just(None),
        (0_i64..12).prop_map(|number| Some(Key::Int(number))),
        odd_keys.prop_map(|value| Some(Key::Str(value.to_owned()))),
    ];
    let deposed = prop::option::weighted(0.2, "[0-9a-f]{8}");
    let instances = prop::collection::btree_map((key, deposed), tree::value(), 0..5);
    let shape = ("[a-z\"\\[\\]/.]{1,9}", any::<bool>(), instances).prop_map(
        |(provider, each, instances)| Shape {
            provider,
            each,
            instances,
        },
    );
    let large = "[a-z]{1100}".prop_map(|value| text(&value));
    let extra_value = prop_oneof![4 => tree::value(), 1 => large];
    let extra = (
        any::<usize>(),
        ("x_[a-z]{1,3}".prop_map(|name| quoted(&name)), extra_value),
    );
    (
        any::<u64>(),
        prop::collection::vec(extra, 0..3),
        prop::collection::btree_map("[a-zé\"]{0,3}", tree::value(), 0..4),
        prop::collection::btree_map(identity, shape, 0..6),
        prop::option::of(tree::value().prop_map(|item| Tree::Array(vec![item]))),
    )
        .prop_map(|(serial, extra, outputs, blocks, check_results)| Plan {
            serial,
            extra,
            outputs,
            blocks,
            check_results,
        })
}

fn places(state: &State<'_>) -> Vec<Box<[u8]>> {
    state.instances.iter().map(|row| row.ord.clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn terraforms_own_layout_is_reproduced(plan in plan()) {
        let document = plan.tree().rendered(0) + "\n";
        let state = state(document.as_bytes());
        prop_assert!(state.reproduces(document.as_bytes()));
        prop_assert_eq!(String::from_utf8(state.render()).unwrap(), &*document);
        prop_assert_eq!(state.serial, plan.serial);
        prop_assert_eq!(&*state.lineage, "some-lineage");
        let rows: usize = plan.blocks.values().map(|shape| shape.instances.len().max(1)).sum();
        prop_assert_eq!(state.instances.len(), rows);
        let mut again = state.clone();
        prop_assert_eq!(again.canonicalise(|_, _| false), 0);
        prop_assert_eq!(again, state);
    }

    #[test]
    fn any_white_space_canonicalises_to_the_same_rows(plan in plan(), blanks in tree::blanks()) {
        let tree = plan.tree();
        let rendered = tree.rendered(0) + "\n";
        let posted = tree.scattered(&mut blanks.iter().copied().cycle());
        let mut rows = canonical(posted.as_bytes());
        let expected = state(rendered.as_bytes());
        prop_assert_eq!(String::from_utf8(rows.render()).unwrap(), &*rendered);
        prop_assert!(rows.reproduces(rendered.as_bytes()));
        prop_assert_eq!(rows.reproduces(posted.as_bytes()), posted == rendered);
        prop_assert_eq!(&rows.header, &expected.header);
        prop_assert_eq!(&rows.outputs, &expected.outputs);
        prop_assert_eq!(&rows.instances, &expected.instances);
        prop_assert_eq!(rows.rows_digest(), expected.rows_digest());
        prop_assert_eq!(rows.canonicalise(|_, _| false), 0);
    }

    #[test]
    fn any_order_gives_the_same_places(plan in plan(), seed in any::<u64>(), last in any::<bool>()) {
        let mut blocks: Vec<_> =
            plan.blocks.iter().map(|(identity, shape)| block(identity, shape)).collect();
        // Every block is turned over, so that its members stand around its instances.
        for block in &mut blocks {
            let Tree::Object(members) = block else { unreachable!() };
            if let Some((_, Tree::Array(instances))) = members.last_mut() {
                instances.reverse();
            }
            if !last {
                let turn = usize::try_from(seed % 5).unwrap() % members.len();
                members.rotate_left(turn);
            }
        }
        blocks.reverse();
        let posted = plan.with_resources(blocks).rendered(0) + "\n";
        let sorted = plan.tree().rendered(0) + "\n";
        let (posted, sorted) = (canonical(posted.as_bytes()), state(sorted.as_bytes()));
        prop_assert_eq!(places(&posted), places(&sorted));
        for (a, b) in posted.instances.iter().zip(&sorted.instances) {
            prop_assert_eq!(&a.body, &b.body);
            prop_assert_eq!(posted.address(a), sorted.address(b));
        }
        if last {
            prop_assert_eq!(posted.render(), sorted.render());
        } else {
            let rendered = posted.render();
            prop_assert!(state(&rendered).reproduces(&rendered));
            prop_assert_eq!(state(&rendered).rows_digest(), posted.rows_digest());
        }
    }

    #[test]
    fn what_is_known_is_left_alone(plan in plan(), blanks in tree::blanks()) {
        let posted = plan.tree().scattered(&mut blanks.iter().copied().cycle());
        let as_posted = state(posted.as_bytes());
        let mut rows = as_posted.clone();
        prop_assert_eq!(rows.canonicalise(|_, _| true), 0);
        prop_assert_eq!(&rows.instances, &as_posted.instances);
        let asked = std::cell::RefCell::new(BTreeSet::new());
        rows.canonicalise(|place, digest| {
            asked.borrow_mut().insert((place.to_vec(), *digest));
            true
        });
        let places = as_posted.instances.iter().map(|row| (row.ord.to_vec(), row.digest));
        let outputs = as_posted.outputs.iter().map(|row| (row.name.clone().into_bytes(), row.digest));
        let parts = as_posted.parts.iter().map(|part| (vec![], part.digest));
        prop_assert_eq!(asked.into_inner(), places.chain(outputs).chain(parts).collect());
    }

    #[test]
    fn a_header_survives_storage_and_a_new_serial(plan in plan(), serial in any::<u64>()) {
        let document = plan.tree().rendered(0) + "\n";
        let split = state(document.as_bytes());
        prop_assert_eq!(Header::decode(&split.header.encode()), Ok(split.header.clone()));
        let mut next = split.clone();
        next.header = split.header.with_serial(serial);
        let rendered = next.render();
        let expected = Plan { serial, ..plan }.tree().rendered(0) + "\n";
        prop_assert_eq!(String::from_utf8(rendered).unwrap(), expected);
    }

    /// Any change of one byte is either noticed or leaves a document that still holds together.
    #[test]
    fn a_damaged_document_is_judged_as_json_is(plan in plan(), place in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut document = (plan.tree().rendered(0) + "\n").into_bytes();
        let place = place.index(document.len());
        document[place] = byte;
        let valid = std::str::from_utf8(&document)
            .is_ok_and(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok());
        match parse(&document) {
            Ok(_) => prop_assert!(valid),
            Err(refusal) => prop_assert_eq!(
                valid,
                !matches!(refusal.code(), "not_json" | "not_utf8" | "utf16"),
                "{}", refusal
            ),
        }
    }
}

#[test]
fn a_shell_is_a_row_and_comes_back() {
    let plan = Plan {
        serial: 1,
        extra: vec![],
        outputs: BTreeMap::new(),
        blocks: [(
            (String::new(), "managed", "a".to_owned(), "b".to_owned()),
            Shape {
                provider: "p".to_owned(),
                each: false,
                instances: BTreeMap::new(),
            },
        )]
        .into(),
        check_results: None,
    };
    let document = plan.tree().rendered(0) + "\n";
    let Ok(Document::State(state)) = parse(document.as_bytes()) else {
        panic!()
    };
    assert_eq!(state.instances[0].kind, RowKind::Shell);
    assert!(state.instances[0].body.is_empty());
    assert!(state.reproduces(document.as_bytes()));
}
