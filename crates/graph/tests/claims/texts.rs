//! Paths as text.

use graph::claims::{Path, Segment};
use proptest::prelude::*;
use tfstate::{Address, Key, Mode, ModuleStep};

use crate::universe::WORLD;

#[test]
fn every_path_of_the_world_reads_back() {
    for (_, path, _) in &WORLD.places {
        assert_eq!(path.to_string().parse(), Ok(path.clone()), "{path}");
        assert_eq!(
            Path::from_texts(&path.to_texts()),
            Ok(path.clone()),
            "{path}"
        );
    }
}

fn any_key() -> impl Strategy<Value = Option<Key>> {
    prop_oneof![
        Just(None),
        any::<u32>().prop_map(|number| Some(Key::Int(number.into()))),
        any::<String>().prop_map(|text| Some(Key::Str(text))),
        "[\\[\\]\".*${}%\\\\ a\u{301}e]{0,6}".prop_map(|text| Some(Key::Str(text))),
    ]
}

fn any_address() -> impl Strategy<Value = Address> {
    let step = ("[a-z_][a-z0-9_-]{0,4}", any_key());
    let steps = prop::collection::vec(step, 0..3);
    (steps, any::<bool>(), "[a-z_][a-z0-9_-]{0,6}", any_key()).prop_map(
        |(steps, managed, name, key)| Address {
            module: steps
                .into_iter()
                .map(|(name, key)| ModuleStep { name, key })
                .collect(),
            mode: if managed { Mode::Managed } else { Mode::Data },
            kind: "aws_x".to_owned(),
            name,
            key,
        },
    )
}

/// Texts near to paths, and far from them.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,12}",
        "(module|data|output|resource|t|\\[0\\]|\\[\"a\"\\]|\\.|\\*){0,7}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn ledger_texts_read_back_and_hold_no_nul(address in any_address()) {
        let path = Path::from(&address);
        let texts = path.to_texts();
        prop_assert!(texts.iter().all(|text| !text.contains('\0')));
        prop_assert_eq!(Path::from_texts(&texts), Ok(path));
    }

    #[test]
    fn printed_addresses_name_the_same_path(address in any_address()) {
        let path = Path::from(&address);
        prop_assert_eq!(path.to_string().parse::<Path>(), Ok(path.clone()));
        prop_assert_eq!(address.to_string().parse::<Path>(), Ok(path));
    }

    #[test]
    fn no_text_makes_the_reader_panic(
        text in any_text(),
        texts in prop::collection::vec(any_text(), 0..4),
    ) {
        if let Ok(path) = text.parse::<Path>() {
            prop_assert_eq!(path.to_string().parse::<Path>(), Ok(path));
        }
        if let Ok(path) = Path::from_texts(&texts) {
            prop_assert_eq!(Path::from_texts(&path.to_texts()), Ok(path));
        }
    }
}

#[test]
fn globs_of_the_protocol_mean_what_they_stand_above() {
    let path = |text: &str| text.parse::<Path>().unwrap();
    assert_eq!(path("*"), Path::root());
    assert_eq!(path("module.a.*"), path("module.a"));
    assert_eq!(path("module.a[\"x\"].*"), path("module.a[\"x\"]"));
    assert_eq!(path("aws_x.y.*"), path("aws_x.y"));
    for text in [
        "",
        "module",
        "aws_x",
        "aws_x.*",
        "a.b.c",
        "output.a.b",
        "**",
    ] {
        assert!(text.parse::<Path>().is_err(), "{text:?}");
    }
}

#[test]
fn a_negative_key_of_a_state_is_kept_by_the_ledger() {
    let key = Some(Key::Int(-1));
    let path = Path::resource(&[], Mode::Managed, "t", "n", key.as_ref());
    assert_eq!(path.to_texts(), ["t.n", "[-1]"]);
    assert_eq!(Path::from_texts(&path.to_texts()), Ok(path));
}

#[test]
fn segments_out_of_order_are_no_path() {
    for texts in [
        &["[0]"][..],
        &["t.n", "t.n"],
        &["t.n", "[0]", "[1]"],
        &["t.n", "[0]", "module.a"],
        &["module.a", "[0]", "[1]"],
        &["module.a", "output.b"],
        &["output.b", "[0]"],
        &["output.b", "t.n"],
        &["module.a.b"],
        &["[x]"],
        &["["],
        &[""],
    ] {
        assert!(Path::from_texts(texts).is_err(), "{texts:?}");
    }
}

#[test]
fn two_spellings_of_one_key_are_one_place() {
    let key = |text: &str| {
        Path::from(&Address {
            module: vec![],
            mode: Mode::Managed,
            kind: "t".to_owned(),
            name: "n".to_owned(),
            key: Some(Key::Str(text.to_owned())),
        })
    };
    assert_eq!(key("\u{e9}"), key("e\u{301}"));
    assert!(
        matches!(key("\u{e9}").segments(), [_, Segment::Key(Key::Str(text))] if text.len() == 2)
    );
}
