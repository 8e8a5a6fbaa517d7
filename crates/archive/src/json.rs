//! JSON at a distance: the entries of the format, depth first and then as what they should be; and
//! how many rows a document can have at most.

use serde::de::DeserializeOwned;

use crate::format::MAX_JSON_DEPTH;
use crate::refusal::{Fault, Rule};

/// Reads `bytes` as one JSON value of this type.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    check_depth(bytes)?;
    serde_json::from_slice(bytes).map_err(|error| Fault::new(Rule::BadJson, error.to_string()))
}

/// Refuses JSON that nests deeper than the format allows. Ill-formed text passes here: the reader
/// that follows refuses it.
pub(crate) fn check_depth(bytes: &[u8]) -> Result<(), Fault> {
    if depths(bytes).any(|depth| depth > MAX_JSON_DEPTH) {
        let detail = format!("JSON nests deeper than {MAX_JSON_DEPTH} levels");
        return Err(Fault::new(Rule::JsonTooDeep, detail));
    }
    Ok(())
}

/// At least as many rows as the document splits into, without splitting it: elements of `resources`
/// and outputs open at the third level, instances at the fifth.
pub(crate) fn most_rows(document: &[u8]) -> u64 {
    depths(document)
        .filter(|depth| matches!(depth, 3 | 5))
        .count() as u64
}

/// The nesting level of each object and array, as it opens.
fn depths(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    bytes.iter().filter_map(move |byte| {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            return None;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                return Some(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_brackets_outside_strings() {
        let nested = |depth: usize| [b"[".repeat(depth), b"]".repeat(depth)].concat();
        assert!(check_depth(&nested(MAX_JSON_DEPTH)).is_ok());
        assert!(check_depth(&nested(MAX_JSON_DEPTH + 1)).is_err());
        let text = format!("[\"{}\\\"{}\"]", "[".repeat(200), "{".repeat(200));
        assert!(check_depth(text.as_bytes()).is_ok());
        let flat = "[],".repeat(1000);
        assert!(check_depth(flat.as_bytes()).is_ok());
    }

    #[test]
    fn rows_are_never_more_than_estimated() {
        let document = br#"{"version":4,"outputs":{"a":{"value":1},"b":{"value":{}}},"resources":[
            {"type":"t","name":"n","mode":"managed","instances":[{"a":{}},{"index_key":"{[{"}]},
            {"type":"t","name":"o","mode":"managed","instances":[]}]}"#;
        assert_eq!(most_rows(document), 6);
    }
}
