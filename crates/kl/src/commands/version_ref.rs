//! How people name a version: `7`, `head`, `@1`, a tag, or an id. The server knows what each means;
//! here only what cannot be one segment of an address is turned away.

use std::fmt;

use crate::failure::{Failure, Result};

/// A version as it was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VersionRef(String);

impl VersionRef {
    /// # Errors
    /// A usage failure for an empty name, and for one with a slash or a control character.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let odd = text.contains('/') || text.chars().any(char::is_control);
        if text.is_empty() || odd || matches!(text, "." | "..") {
            return Err(Failure::usage(format!("`{text}` names no version")).hint(HINT));
        }
        Ok(Self(text.to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VersionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const HINT: &str = "run `kl history` for the versions there are";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_stand_in_an_address_names_no_version() {
        for text in ["head", "@2", "7", "before-the-move"] {
            assert_eq!(VersionRef::parse(text).unwrap().as_str(), text);
        }
        for text in ["", ".", "..", "a/b", "a\nb"] {
            assert!(VersionRef::parse(text).is_err(), "{text:?}");
        }
    }
}
