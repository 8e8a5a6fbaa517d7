//! Addresses against real Terraform's verdicts, and properties of print and parse.

use proptest::prelude::*;
use tfstate::{Address, Key, Mode, ModulePath, ModuleStep};

/// Pairs made by Terraform 1.11.4: an instance key, and the line `terraform state list` printed.
#[test]
fn keys_print_as_terraform_prints_them() {
    let pairs: Vec<(String, String)> =
        serde_json::from_str(include_str!("data/printed_keys.json")).unwrap();
    for (key, line) in pairs {
        let address = Address {
            module: vec![],
            mode: Mode::Managed,
            kind: "terraform_data".to_owned(),
            name: "a".to_owned(),
            key: Some(Key::Str(key)),
        };
        assert_eq!(address.to_string(), line);
        assert_eq!(line.parse(), Ok(address), "{line:?}");
    }
}

/// Texts given to `terraform state list`, and whether it took them for an address.
#[test]
fn what_terraform_takes_for_an_address_is_one() {
    let verdicts: Vec<(String, bool)> =
        serde_json::from_str(include_str!("data/parsed_addresses.json")).unwrap();
    for (text, accepted) in verdicts {
        let parsed = text.parse::<Address>();
        assert_eq!(parsed.is_ok(), accepted, "{text:?}: {parsed:?}");
    }
}

#[test]
fn spelling_is_free_and_printing_is_not() {
    let cases = [
        ("a.b", "a.b"),
        (" a . b [ 007 ] ", "a.b[7]"),
        ("a.b[1e1]", "a.b[10]"),
        ("a.b[1.50e2]", "a.b[150]"),
        ("a.b[0e99999999999999999999]", "a.b[0]"),
        (r#"a.b["\u0041"]"#, r#"a.b["A"]"#),
        (r#"a.b["\U0001f600"]"#, "a.b[\"\u{1f600}\"]"),
        (r#"a.b["$$${"]"#, r#"a.b["$$${"]"#),
        (r#"a.b["\u0000"]"#, r#"a.b["\u0000"]"#),
        ("a.b[\"e\u{301}\"]", "a.b[\"\u{e9}\"]"),
        (
            "module.m[0].module.n[\"x.y\"].data.a.b",
            "module.m[0].module.n[\"x.y\"].data.a.b",
        ),
    ];
    for (text, printed) in cases {
        assert_eq!(
            text.parse::<Address>().map(|address| address.to_string()),
            Ok(printed.into())
        );
    }
}

#[test]
fn keys_can_be_left_out() {
    let address: Address = r#"module.m["k"].module.n.data.a.b[3]"#.parse().unwrap();
    assert_eq!(address.config_address(), "module.m.module.n.data.a.b");
    assert_eq!(
        address.resource_address(),
        r#"module.m["k"].module.n.data.a.b"#
    );
    assert_eq!(address.module_path(), r#"module.m["k"].module.n"#);
}

#[test]
fn an_error_says_where() {
    let error = "module.m[0].a.b[x]".parse::<Address>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "a key must be a number or a quoted string (at byte 16)"
    );
}

fn identifier() -> impl Strategy<Value = String> {
    "[\\p{XID_Start}_][\\p{XID_Continue}-]{0,6}".prop_filter("keywords", |name| {
        // Only in front of a dot do these words mean something, and HCL knows no joiners.
        name != "module" && name != "data" && !name.contains(['\u{200c}', '\u{200d}'])
    })
}

/// A key as Terraform makes it: normalised.
fn key() -> impl Strategy<Value = Option<Key>> {
    use unicode_normalization::UnicodeNormalization as _;
    let text = prop_oneof![any::<String>(), "[$%{}\"\\\\ a]{0,8}"];
    prop_oneof![
        Just(None),
        (0..=i64::MAX).prop_map(|number| Some(Key::Int(number))),
        text.prop_map(|text| Some(Key::Str(text.nfc().collect()))),
    ]
}

fn steps() -> impl Strategy<Value = Vec<ModuleStep>> {
    let step = (identifier(), key()).prop_map(|(name, key)| ModuleStep { name, key });
    prop::collection::vec(step, 0..4)
}

fn address() -> impl Strategy<Value = Address> {
    let mode = prop_oneof![Just(Mode::Managed), Just(Mode::Data)];
    (steps(), mode, identifier(), identifier(), key()).prop_map(
        |(module, mode, kind, name, key)| Address {
            module,
            mode,
            kind,
            name,
            key,
        },
    )
}

proptest! {
    #[test]
    fn parsing_undoes_printing(address in address()) {
        prop_assert_eq!(address.to_string().parse(), Ok(address));
    }

    #[test]
    fn a_module_path_parses_to_itself(steps in steps()) {
        let path = ModulePath(steps);
        prop_assert_eq!(path.to_string().parse(), Ok(path));
    }

    #[test]
    fn printing_what_was_parsed_is_stable(text in "[a-z.\\[\\]\"0-9 $%{}\\\\u-]{0,24}") {
        if let Ok(address) = text.parse::<Address>() {
            prop_assert_eq!(address.to_string().parse(), Ok(address));
        }
    }
}
