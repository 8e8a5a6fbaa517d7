//! The documents of the case collection, and what Terraform's reader was seen to do with odd ones.

mod support;

use std::fmt::Write as _;

use support::{canonical, case_file, state};
use tfstate::{
    ByteOrder, Document, Key, MAX_DEPTH, MAX_ROWS, OpaqueReason, Refusal, RowKind, decode_string,
    encode_string, instance_members, parse, string_array,
};

fn refusal(bytes: &[u8]) -> Refusal {
    parse(bytes).expect_err("the document is refused")
}

fn opaque(bytes: &[u8]) -> tfstate::Opaque {
    match parse(bytes).expect("the document is kept") {
        Document::Opaque(opaque) => opaque,
        Document::State(_) => panic!("the document is read as rows"),
    }
}

fn not_readable(text: &str) -> String {
    match opaque(text.as_bytes()).reason {
        OpaqueReason::NotReadable(why) => why,
        reason => panic!("{reason:?}"),
    }
}

/// A version 4 document with these resources.
fn with_resources(resources: &str) -> String {
    format!(r#"{{"version":4,"serial":1,"lineage":"l","resources":[{resources}]}}"#)
}

/// A block `a.b` with these instances.
fn block(instances: &str) -> String {
    format!(
        r#"{{"mode":"managed","type":"a","name":"b","provider":"p","instances":[{instances}]}}"#
    )
}

fn addresses(document: &str) -> Vec<String> {
    let state = state(document.as_bytes());
    state
        .instances
        .iter()
        .map(|row| state.address(row).to_string())
        .collect()
}

#[test]
fn encodings_other_than_plain_utf8_are_named() {
    assert_eq!(refusal(&case_file("bom-utf8.json")), Refusal::ByteOrderMark);
    let utf16 = Refusal::Utf16 {
        order: ByteOrder::Little,
    };
    assert_eq!(refusal(&case_file("utf16le.json")), utf16);
    let unmarked: Vec<u8> = "{\"version\":4}"
        .bytes()
        .flat_map(|byte| [0, byte])
        .collect();
    assert_eq!(
        refusal(&unmarked),
        Refusal::Utf16 {
            order: ByteOrder::Big
        }
    );
    assert_eq!(
        refusal(b"{\"version\":4,\"a\":\"\xff\"}"),
        Refusal::NotUtf8 { offset: 18 }
    );
    assert_eq!(refusal(b""), Refusal::Empty);
    assert_eq!(refusal(b" \n"), Refusal::Empty);
}

#[test]
fn odd_bytes_and_nul_survive() {
    for name in [
        "odd-bytes.json",
        "nul-and-surrogates.json",
        "keys-state.json",
        "base-v4.json",
    ] {
        let bytes = case_file(name);
        let rows = canonical(&bytes);
        let rendered = rows.render();
        assert_eq!(
            canonical(&rendered).rows_digest(),
            rows.rows_digest(),
            "{name}"
        );
        let strip = |bytes: &[u8]| -> Vec<u8> {
            bytes
                .iter()
                .copied()
                .filter(|byte| !byte.is_ascii_whitespace())
                .collect()
        };
        // Order may differ, but no byte beside white space is lost or made up.
        let (mut a, mut b) = (strip(&rendered), strip(&bytes));
        a.sort_unstable();
        b.sort_unstable();
        // A missing comma or two would show here as well.
        assert_eq!(
            String::from_utf8_lossy(&a),
            String::from_utf8_lossy(&b),
            "{name}"
        );
        for row in &rows.instances {
            let address = rows.address(row);
            assert_eq!(address.to_string().parse(), Ok(address));
        }
    }
}

#[test]
fn encrypted_envelopes_are_kept_with_what_they_tell() {
    let bare = opaque(&case_file("encrypted-envelope.json"));
    assert_eq!(bare.reason, OpaqueReason::Encrypted);
    let full = opaque(&case_file("encrypted-envelope-with-serial.json"));
    assert_eq!(full.reason, OpaqueReason::Encrypted);
    assert!(full.serial.is_some() && full.lineage.is_some());
    assert_eq!(
        opaque(br#"{"encrypted_data":"x"}"#).reason,
        OpaqueReason::Encrypted
    );
    let negative = refusal(br#"{"encrypted_data":"x","serial":-1}"#);
    assert_eq!(negative.code(), "serial_out_of_range");
}

#[test]
fn an_address_twice_is_refused_by_name() {
    for name in ["dup-address.json", "dup-instance.json"] {
        let refusal = refusal(&case_file(name));
        assert_eq!(refusal.code(), "duplicate_address", "{name}");
        assert!(refusal.to_string().contains("terraform_data."), "{refusal}");
    }
    let deposed = block(r#"{"deposed":"0123abcd"},{},{"deposed":"0123abcd"}"#);
    let deposed = refusal(with_resources(&deposed).as_bytes()).to_string();
    assert_eq!(
        deposed,
        "the document holds a.b (deposed object 0123abcd) more than once"
    );
    // Terraform reads a number as a double and cuts it.
    let cut = with_resources(&block(r#"{"index_key":1},{"index_key":1.9}"#));
    assert_eq!(refusal(cut.as_bytes()).code(), "duplicate_address");
    let spelled = with_resources(&block(r#"{"index_key":"a"},{"index_key":"\u0061"}"#));
    assert_eq!(refusal(spelled.as_bytes()).code(), "duplicate_address");
    let surrogates = with_resources(&block(r#"{"index_key":"\ud800"},{"index_key":"\udc00"}"#));
    assert_eq!(refusal(surrogates.as_bytes()).code(), "duplicate_address");
}

#[test]
fn a_field_twice_is_read_as_terraform_reads_it() {
    let bytes = case_file("dup-json-key.json");
    let twice = state(&bytes);
    assert_eq!(
        (twice.serial, twice.ambiguous.as_deref()),
        (9, Some("serial"))
    );
    let read = |text: &str| {
        let state = state(text.as_bytes());
        (state.serial, state.lineage.clone(), state.ambiguous)
    };
    let ambiguous = |name: &str| Some(name.to_owned());
    assert_eq!(
        read(r#"{"version":4,"SERIAL":3}"#),
        (3, String::new(), None)
    );
    assert_eq!(
        read(r#"{"version":4,"serial":3,"Serial":3}"#),
        (3, String::new(), None)
    );
    assert_eq!(
        read(r#"{"version":4,"serial":3,"serial":null,"lineage":"a","lineage":"b"}"#),
        (3, "b".to_owned(), ambiguous("serial"))
    );
    assert_eq!(
        read("{\"ver\u{17f}ion\":4,\"\u{17f}erial\":7}"),
        (7, String::new(), None)
    );
    let next = state(br#"{"version":4,"serial":5,"SERIAL":9}"#)
        .header
        .with_serial(10);
    let mut renumbered = state(br#"{"version":4}"#);
    renumbered.header = next;
    assert_eq!(
        String::from_utf8(renumbered.render()).unwrap(),
        "{\n  \"version\": 4,\n  \"serial\": 10,\n  \"SERIAL\": 10\n}\n"
    );
}

#[test]
fn a_bare_version_is_a_state() {
    let bare = state(b"{\"version\":4}");
    assert_eq!(
        (bare.serial, &*bare.lineage, bare.instances.len()),
        (0, "", 0)
    );
    assert_eq!(bare.render(), b"{\n  \"version\": 4\n}\n");
    let mut numbered = bare.clone();
    numbered.header = bare.header.with_serial(1);
    assert_eq!(
        numbered.render(),
        b"{\n  \"version\": 4,\n  \"serial\": 1\n}\n"
    );
    let nulls = state(br#"{"version":4,"outputs":null,"resources":null,"check_results":null}"#);
    let rendered = "{\n  \"version\": 4,\n  \"outputs\": null,\n  \"resources\": null,\n  \"check_results\": null\n}\n";
    assert_eq!(String::from_utf8(nulls.render()).unwrap(), rendered);
}

#[test]
fn rows_find_a_place_in_any_header() {
    let rows_text = with_resources(&block("{}")).replace(
        "\"resources\"",
        r#""outputs":{"o":{"value":1,"type":"number"}},"resources""#,
    );
    let rows = canonical(rows_text.as_bytes());
    for header in [
        r#"{"version":4}"#,
        r#"{"version":4,"outputs":null,"resources":null,"x":1}"#,
        "{\"version\":4,\"resources\":[]}",
    ] {
        let mut moved = rows.clone();
        moved.header = state(header.as_bytes()).header;
        let document = moved.render();
        let again = state(&document);
        assert_eq!(again.rows_digest(), rows.rows_digest(), "{header}");
        assert!(again.reproduces(&document), "{header}");
    }
}

#[test]
fn serials_beyond_terraforms_are_refused() {
    for serial in ["-1", "-0", "18446744073709551616"] {
        let text = format!(r#"{{"version":4,"serial":{serial}}}"#);
        assert_eq!(
            refusal(text.as_bytes()).code(),
            "serial_out_of_range",
            "{serial}"
        );
    }
    let most = format!(r#"{{"version":4,"serial":{}}}"#, u64::MAX);
    assert_eq!(state(most.as_bytes()).serial, u64::MAX);
}

#[test]
fn versions_other_than_four_are_kept() {
    assert_eq!(
        opaque(br#"{"version":3,"serial":2}"#).reason,
        OpaqueReason::OlderVersion(3)
    );
    assert_eq!(
        opaque(br#"{"version":5}"#).reason,
        OpaqueReason::NewerVersion(5)
    );
    for version in [r#""4""#, "4.0", "4e0", "0", "-4", "null", "{}"] {
        not_readable(&format!(r#"{{"version":{version},"serial":1}}"#));
    }
    not_readable("{}");
}

#[test]
fn what_cannot_be_rows_is_kept_with_a_reason() {
    let blocks = [
        "1",
        "null",
        r#"{"mode":"managed","type":"a","name":"b c","instances":[]}"#,
        r#"{"mode":"managed","type":"a","name":"b\u0000","instances":[]}"#,
        r#"{"mode":"managed","type":"data","name":"b","instances":[]}"#,
        r#"{"mode":"other","type":"a","name":"b","instances":[]}"#,
        r#"{"mode":"managed","type":"a","name":1,"instances":[]}"#,
        r#"{"mode":"managed","type":"a","name":"b","Instances":[]}"#,
        r#"{"mode":"managed","type":"a","name":"b","instances":[],"instances":[]}"#,
        r#"{"module":"modul.a","mode":"managed","type":"a","name":"b","instances":[]}"#,
        r#"{"module":"module.a.b","mode":"managed","type":"a","name":"b","instances":[]}"#,
        r#"{"mode":"managed","type":"a","name":"b","provider":"\u0000","instances":[]}"#,
    ];
    for text in blocks {
        not_readable(&with_resources(text));
    }
    for instance in [
        "null",
        "[]",
        r#"{"index_key":true}"#,
        r#"{"index_key":[]}"#,
        r#"{"index_key":1e30}"#,
        r#"{"INDEX_KEY":1}"#,
        r#"{"deposed":"short"}"#,
        r#"{"deposed":7}"#,
    ] {
        not_readable(&with_resources(&block(instance)));
    }
    not_readable(r#"{"version":4,"resources":{}}"#);
    not_readable(r#"{"version":4,"resources":[],"resources":[]}"#);
    not_readable(r#"{"version":4,"Resources":[]}"#);
    not_readable(r#"{"version":4,"outputs":{"a":1}}"#);
    not_readable(r#"{"version":4,"outputs":{"a\u0000":{}}}"#);
    not_readable(r#"{"version":4,"lineage":"\u0000"}"#);
    not_readable(r#"{"version":4,"serial":"5"}"#);
    assert_eq!(
        not_readable(&with_resources(&block(r#"{"Deposed":""}"#))),
        "deposed is spelled \"Deposed\""
    );
}

#[test]
fn instances_are_read_as_terraform_reads_them() {
    let keys = r#"{"index_key":"x"},{"index_key":1.0},{"index_key":-1},{"index_key":null},{"index_key":0,"deposed":""}"#;
    assert_eq!(
        addresses(&with_resources(&block(keys))),
        ["a.b", "a.b[-1]", "a.b[0]", "a.b[1]", "a.b[\"x\"]"]
    );
    let wide = with_resources(&block(r#"{"index_key":1152921504606846977}"#));
    assert_eq!(addresses(&wide), ["a.b[1152921504606846976]"]);
    let modules = [
        r#"module.m[01]"#,
        r#" module . m [ \"x\" ]"#,
        r#"module.m[\"\\u0041\"]"#,
    ];
    let blocks: Vec<_> = modules
        .iter()
        .map(|module| format!(r#"{{"module":"{module}","mode":"data","type":"a","name":"b"}}"#))
        .collect();
    assert_eq!(
        addresses(&with_resources(&blocks.join(","))),
        [
            "module.m[\"A\"].data.a.b",
            "module.m[\"x\"].data.a.b",
            "module.m[1].data.a.b"
        ]
    );
}

#[test]
fn blocks_of_one_resource_merge() {
    let two = [
        block(r#"{"index_key":1}"#),
        block(""),
        block(r#"{"index_key":0}"#),
    ]
    .join(",");
    let document = with_resources(&two);
    let rows = canonical(document.as_bytes());
    let kinds: Vec<_> = rows.instances.iter().map(|row| row.kind).collect();
    assert_eq!(kinds, [RowKind::Current, RowKind::Current]);
    let once = canonical(&rows.render()).blocks.len();
    assert_eq!(once, 1, "rows with one block text share a block");
    let shells = with_resources(&[block(""), block("")].join(","));
    assert_eq!(state(shells.as_bytes()).instances.len(), 1);
}

#[test]
fn providers_of_instances_and_unknown_members_stay() {
    let instance = r#"{"index_key":"k","deposed":"0123abcd","provider":"provider[\"x\"].a[\"k\"]","schema_version":0,"skip_destroy":true,"later":{"a":[1,1.50]}}"#;
    let document =
        with_resources(&block(instance).replace(r#""provider":"p","#, r#""future":[],"#));
    let rows = canonical(document.as_bytes());
    assert_eq!(rows.block(&rows.instances[0]).provider, None);
    assert_eq!(rows.instances[0].kind, RowKind::Deposed);
    let body = String::from_utf8(rows.instances[0].body.to_vec()).unwrap();
    assert!(
        body.contains("\"later\": {\n            \"a\": [\n              1,\n              1.50\n")
    );
    let members = instance_members(&rows.instances[0].body).unwrap();
    assert_eq!(members.index_key, Some(&br#""k""#[..]));
    assert_eq!(members.skip_destroy, Some(&b"true"[..]));
    let provider = members.provider.and_then(decode_string);
    assert_eq!(provider.as_deref(), Some("provider[\"x\"].a[\"k\"]"));
    assert_eq!(rows.instances[0].key(), Some(Key::Str("k".to_owned())));
}

#[test]
fn nesting_is_limited_as_in_go() {
    let nested = |depth: usize| {
        format!(
            r#"{{"version":4,"x":{}{}}}"#,
            "[".repeat(depth - 1),
            "]".repeat(depth - 1)
        )
    };
    state(nested(MAX_DEPTH).as_bytes());
    assert_eq!(refusal(nested(MAX_DEPTH + 1).as_bytes()).code(), "not_json");
}

#[test]
fn deep_nesting_cannot_blow_a_row_up() {
    // Rendered, each of these million elements would stand behind 20,000 blanks.
    let depth = MAX_DEPTH - 10;
    let ones = "1,".repeat(200_000);
    let value = format!("{}{ones}1{}", "[".repeat(depth), "]".repeat(depth));
    let document = with_resources(&block(&format!(r#"{{"attributes":{value}}}"#)));
    let mut rows = state(document.as_bytes());
    rows.canonicalise(|_, _| false);
    assert!(
        rows.render().len() < 2 * document.len(),
        "the row stays as posted"
    );
}

#[test]
fn small_rows_cannot_exhaust_memory() {
    let mut instances = String::new();
    for number in 0..=MAX_ROWS {
        let comma = if number == 0 { "" } else { "," };
        write!(instances, "{comma}{{\"index_key\":{number}}}").unwrap();
    }
    let document = with_resources(&block(&instances));
    assert_eq!(
        refusal(document.as_bytes()),
        Refusal::TooManyInstances { limit: MAX_ROWS }
    );
}

#[test]
fn strings_are_written_as_terraform_writes_them() {
    let value = "a\"\\\u{8}\u{c}\n\r\t\u{1}<>&\u{2028}\u{2029}/\u{7f}é";
    let token = r#""a\"\\\b\f\n\r\t\u0001\u003c\u003e\u0026\u2028\u2029/"#.to_owned() + "\u{7f}é\"";
    assert_eq!(String::from_utf8(encode_string(value)).unwrap(), token);
    assert_eq!(decode_string(token.as_bytes()).as_deref(), Some(value));
    let lone = decode_string(br#""\ud800\u0041\udc00\ud83d\ude00\ud800\ud800""#);
    assert_eq!(
        lone.as_deref(),
        Some("\u{fffd}A\u{fffd}\u{1f600}\u{fffd}\u{fffd}")
    );
    assert_eq!(string_array(br#"["a", 1, "\u0062"]"#), ["a", "b"]);
}
