//! The encoded order against the comparison it stands for, and the digest of rows against a sum
//! done by hand.

use proptest::prelude::*;
use proptest::sample::select;
use tfstate::{Address, Digest, Key, Mode, ModuleStep, OrdKey, Place, RowsDigest};

fn text() -> impl Strategy<Value = String> {
    let odd = [
        "",
        "\0",
        "a",
        "a\0",
        "a\0\0",
        "a\0b",
        "ab",
        "\u{1}",
        "a\u{1}",
        "é",
        "\u{10ffff}",
    ];
    prop_oneof![select(odd.map(str::to_owned).to_vec()), any::<String>()]
}

fn place() -> impl Strategy<Value = Place> {
    let number = prop_oneof![
        select(vec![i64::MIN, -1, 0, 9, 10, 255, 256, i64::MAX]),
        any::<i64>()
    ];
    let key = prop_oneof![
        Just(None),
        number.prop_map(|number| Some(Key::Int(number))),
        text().prop_map(|text| Some(Key::Str(text))),
    ];
    let instance = (key, prop::option::of("[0-9a-f]{8}"))
        .prop_map(|(key, deposed)| OrdKey::Instance { key, deposed });
    let key = prop_oneof![1 => Just(OrdKey::Shell), 9 => instance];
    let mode = prop_oneof![Just(Mode::Managed), Just(Mode::Data)];
    (text(), mode, text(), text(), key).prop_map(|(module, mode, kind, name, key)| Place {
        module,
        mode,
        kind,
        name,
        key,
    })
}

/// An address out of few, so that two of them often have to do with each other.
fn address() -> impl Strategy<Value = Address> {
    let key = || {
        select(vec![
            None,
            Some(Key::Int(-1)),
            Some(Key::Int(0)),
            Some(Key::Int(1)),
            Some(Key::Str(String::new())),
            Some(Key::Str("a".to_owned())),
            Some(Key::Str("a\0".to_owned())),
            Some(Key::Str("a\0b".to_owned())),
            Some(Key::Str("ab".to_owned())),
        ])
    };
    let name = || select(vec!["a", "ab", "b"]).prop_map(str::to_owned);
    let step = (name(), key()).prop_map(|(name, key)| ModuleStep { name, key });
    let module = prop::collection::vec(step, 0..2);
    let mode = prop_oneof![Just(Mode::Managed), Just(Mode::Data)];
    (module, mode, name(), name(), key()).prop_map(|(module, mode, kind, name, key)| Address {
        module,
        mode,
        kind,
        name,
        key,
    })
}

fn place_at(address: &Address, key: OrdKey) -> Place {
    Place {
        module: address.module_path(),
        mode: address.mode,
        kind: address.kind.clone(),
        name: address.name.clone(),
        key,
    }
}

/// The order as the facts about Terraform word it, without any derived comparison.
fn document_order(a: &Place, b: &Place) -> std::cmp::Ordering {
    fn rank(key: &OrdKey) -> (u8, i64, Vec<u8>, Option<Vec<u8>>) {
        let OrdKey::Instance { key, deposed } = key else {
            return (0, 0, vec![], None);
        };
        let deposed = deposed.as_ref().map(|text| text.as_bytes().to_vec());
        match key {
            None => (1, 0, vec![], deposed),
            Some(Key::Int(number)) => (2, *number, vec![], deposed),
            Some(Key::Str(text)) => (3, 0, text.as_bytes().to_vec(), deposed),
        }
    }
    (a.module.as_bytes().cmp(b.module.as_bytes()))
        .then_with(|| a.mode.as_str().cmp(b.mode.as_str()))
        .then_with(|| a.kind.as_bytes().cmp(b.kind.as_bytes()))
        .then_with(|| a.name.as_bytes().cmp(b.name.as_bytes()))
        .then_with(|| rank(&a.key).cmp(&rank(&b.key)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_range_of_an_address_holds_its_objects_and_nothing_else(
        wanted in address(),
        other in address(),
        deposed in prop::option::of("[0-9a-f]{8}"),
    ) {
        let (from, until) = Place::range_of(&wanted);
        let is_within = |place: Place| {
            let ord = place.encode();
            from[..] <= ord[..] && ord[..] < until[..]
        };
        for address in [&wanted, &other] {
            let key = address.key.clone();
            let object = OrdKey::Instance { key, deposed: deposed.clone() };
            prop_assert_eq!(is_within(place_at(address, object)), *address == wanted);
            let has_shell = wanted.key.is_none()
                && address.resource_address() == wanted.resource_address();
            prop_assert_eq!(is_within(place_at(address, OrdKey::Shell)), has_shell);
        }
    }

    #[test]
    fn encoded_places_compare_as_places_do(a in place(), b in place()) {
        prop_assert_eq!(a.encode().cmp(&b.encode()), document_order(&a, &b));
        prop_assert_eq!(a.cmp(&b), document_order(&a, &b));
    }

    #[test]
    fn a_place_decodes_to_itself(place in place()) {
        prop_assert_eq!(Place::decode(&place.encode()), Ok(place));
    }

    #[test]
    fn what_decodes_encodes_to_the_same_bytes(bytes in prop::collection::vec(select(vec![0, 1, 2, 3, 255, b'a']), 0..24)) {
        if let Ok(place) = Place::decode(&bytes) {
            prop_assert_eq!(&*place.encode(), &*bytes);
        }
    }

    #[test]
    fn the_digest_of_rows_follows_every_change(
        rows in prop::collection::vec(any::<[u8; 32]>(), 0..8),
        gone in prop::collection::vec(any::<[u8; 32]>(), 0..8),
        carry in any::<bool>(),
    ) {
        let ones = [[0xff; 32], [1; 32]];
        let rows: Vec<_> = rows.into_iter().chain(carry.then_some(ones).into_iter().flatten()).collect();
        let mut sum = RowsDigest::ZERO;
        gone.iter().for_each(|row| sum.add(Digest(*row)));
        rows.iter().for_each(|row| sum.add(Digest(*row)));
        gone.iter().rev().for_each(|row| sum.remove(Digest(*row)));
        prop_assert_eq!(sum, rows.iter().rev().map(|row| Digest(*row)).collect());
        prop_assert_eq!(sum.to_bytes(), sum_by_hand(&rows));
        prop_assert_eq!(RowsDigest::from_bytes(sum.to_bytes()), sum);
    }
}

fn sum_by_hand(rows: &[[u8; 32]]) -> [u8; 32] {
    let mut sum = [0_u8; 32];
    for row in rows {
        let mut carry = 0;
        for (place, byte) in sum.iter_mut().zip(row) {
            let total = u16::from(*place) + u16::from(*byte) + carry;
            *place = total.to_le_bytes()[0];
            carry = total >> 8;
        }
    }
    sum
}
