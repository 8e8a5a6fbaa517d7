//! Reading the JSON entries: depth first, then as what they should be.

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
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in bytes {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_JSON_DEPTH {
            let detail = format!("JSON nests deeper than {MAX_JSON_DEPTH} levels");
            return Err(Fault::new(Rule::JsonTooDeep, detail));
        }
    }
    Ok(())
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
}
