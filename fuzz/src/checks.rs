//! Properties that hold for any bytes. Each function panics when one does not.

use tfstate::{
    Address, Document, Header, Key, ModulePath, Place, State, decode_string, encode_string,
    instance_members, parse, string_array,
};

/// Reading, canonicalising, rendering and reading again.
pub fn document(data: &[u8]) {
    let parsed = parse(data);
    agrees_with_serde(data, &parsed);
    let Ok(Document::State(state)) = parsed else {
        return;
    };
    holds_together(&state);
    assert_eq!(state.reproduces(data), state.render() == data);

    let mut rendered = state.clone();
    rendered.canonicalise(|_, _| false);
    holds_together(&rendered);
    let once = rendered.clone();
    rendered.canonicalise(|_, _| false);
    assert_eq!(once, rendered, "canonicalising again changes nothing");
    for (posted, row) in state.instances.iter().zip(&rendered.instances) {
        assert_eq!(posted.ord, row.ord);
        assert_eq!(state.address(posted), rendered.address(row));
        assert_eq!(state.dependencies(posted), rendered.dependencies(row));
    }
}

/// Whether bytes are JSON is not a matter of opinion, as far as serde_json's depth goes.
fn agrees_with_serde(data: &[u8], parsed: &Result<Document<'_>, tfstate::Refusal>) {
    let mut depth = 0_usize;
    let mut deepest = 0;
    for byte in data {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    if deepest > 120 {
        return;
    }
    let valid = std::str::from_utf8(data)
        .is_ok_and(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok());
    match parsed {
        Ok(_) => assert!(valid, "accepted what is no JSON"),
        Err(refusal) => match refusal.code() {
            "not_json" | "not_utf8" | "empty_document" | "byte_order_mark" | "utf16" => {
                assert!(!valid, "{refusal}");
            }
            _ => assert!(valid, "{refusal}"),
        },
    }
}

fn holds_together(state: &State<'_>) {
    assert!(state.instances.is_sorted_by(|a, b| a.ord < b.ord));
    assert!(state.outputs.is_sorted_by(|a, b| a.name < b.name));
    for row in &state.instances {
        let place = Place::decode(&row.ord).expect("a place decodes");
        assert_eq!(place.encode(), row.ord);
        let address = state.address(row);
        assert_eq!(place.module, address.module_path());
        // Terraform prints a negative key, but does not read it; and reading normalises texts.
        if !matches!(address.key, Some(Key::Int(..0))) {
            let parsed: Address = address.to_string().parse().expect("an address parses");
            assert_eq!(parsed.to_string().parse(), Ok(parsed));
        }
    }
    let encoded = state.header.encode();
    assert_eq!(Header::decode(&encoded).as_ref(), Ok(&state.header));

    let document = state.render();
    assert!(state.reproduces(&document));
    let Ok(Document::State(again)) = parse(&document) else {
        panic!("a rendered state is one")
    };
    assert!(again.reproduces(&document));
    assert_eq!(again.rows_digest(), state.rows_digest());
    assert_eq!(
        (again.serial, &again.lineage),
        (state.serial, &state.lineage)
    );

    let mut renumbered = state.clone();
    renumbered.header = state.header.with_serial(7);
    let document = renumbered.render();
    let Ok(Document::State(again)) = parse(&document) else {
        panic!("a renumbered state is one")
    };
    assert_eq!(again.serial, 7);
    assert_eq!(again.rows_digest(), state.rows_digest());
}

/// Addresses, module paths and encoded headers and places from anywhere.
pub fn address(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        if let Ok(address) = text.parse::<Address>() {
            let printed = address.to_string();
            assert_eq!(printed.parse(), Ok(address.clone()));
            assert!(printed.starts_with(&address.resource_address()));
            let config = address.config_address();
            let parsed: Address = config.parse().expect("a configuration address is one");
            assert_eq!(parsed.config_address(), config);
        }
        if let Ok(path) = text.parse::<ModulePath>() {
            assert_eq!(path.to_string().parse(), Ok(path));
        }
    }
}

/// Stored forms: a place, a header.
pub fn rows(data: &[u8]) {
    if let Ok(place) = Place::decode(data) {
        assert_eq!(&*place.encode(), data);
    }
    if let Ok(header) = Header::decode(data) {
        assert_eq!(header.encode(), data);
        _ = header.with_serial(1).encode();
    }
    // Two places in one input: bytes compare as places do.
    let (a, b) = data.split_at(data.len() / 2);
    if let (Ok(first), Ok(second)) = (Place::decode(a), Place::decode(b)) {
        assert_eq!(a.cmp(b), first.cmp(&second));
    }
}

/// Members of an instance, strings and lists of strings.
pub fn members(data: &[u8]) {
    if let Some(members) = instance_members(data) {
        for span in [members.index_key, members.attributes, members.dependencies] {
            let Some(span) = span else { continue };
            assert!(serde_json::from_slice::<serde::de::IgnoredAny>(span).is_ok() || deep(span));
            _ = string_array(span);
        }
    }
    if let Some(value) = decode_string(data) {
        let token = encode_string(&value);
        assert_eq!(decode_string(&token).as_deref(), Some(&*value));
    }
    _ = string_array(data);
}

fn deep(span: &[u8]) -> bool {
    span.iter()
        .filter(|byte| matches!(byte, b'{' | b'['))
        .count()
        > 120
}
