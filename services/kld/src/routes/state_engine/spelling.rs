//! The two spellings of one member: the protocol's documents write `state_id`, its first implementation sent `StateID`, and
//! clients read either.

use serde_json::Value;

/// Adds to each member of an object the same one in the other spelling.
pub(super) fn spell_both_ways(object: &mut Value) {
    let Value::Object(members) = object else {
        return;
    };
    let twins: Vec<(String, Value)> = members
        .iter()
        .map(|(name, value)| (pascal(name), value.clone()))
        .collect();
    for (name, value) in twins {
        members.entry(name).or_insert(value);
    }
}

/// `state_id` as `StateID`.
fn pascal(name: &str) -> String {
    let words = name.split('_').map(|word| match word {
        "id" => "ID".to_owned(),
        _ => {
            let mut letters = word.chars();
            let first = letters.next().map(|first| first.to_ascii_uppercase());
            first.into_iter().chain(letters).collect()
        }
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_member_is_there_twice() {
        let mut object = json!({ "id": 1, "state_id": 2, "size_bytes": 3 });
        spell_both_ways(&mut object);
        assert_eq!(
            object,
            json!({ "id": 1, "ID": 1, "state_id": 2, "StateID": 2, "size_bytes": 3, "SizeBytes": 3 })
        );
        let mut nothing = Value::Null;
        spell_both_ways(&mut nothing);
        assert_eq!(nothing, Value::Null);
    }
}
