//! Names that people choose: of states, and of workspaces and environments.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::text_schema;

/// The longest name in characters, which are bytes here.
pub const MAX_NAME_LENGTH: usize = 128;

/// A text that cannot be a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a name starts with a letter or digit, goes on with letters, digits, `.`, `_` and `-`, and has at most {MAX_NAME_LENGTH} characters"
)]
pub struct InvalidName;

/// The name of a state: one segment of an address, unique in its environment without regard to case.
///
/// It keeps the spelling it was made with. Two spellings of one name are *equal*, but only the first is accepted on
/// the wire (`name_case`): two spellings that reach one state would be two addresses in people's backend blocks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StateName(String);

impl StateName {
    /// The name in the spelling it was made with.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form in which names are compared: `lower(name)` in SQL.
    #[must_use]
    pub fn folded(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl FromStr for StateName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let mut bytes = text.bytes();
        let starts_well = bytes.next().is_some_and(|b| b.is_ascii_alphanumeric());
        let goes_on_well =
            bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        if starts_well && goes_on_well && text.len() <= MAX_NAME_LENGTH {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidName)
        }
    }
}

impl TryFrom<String> for StateName {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}

impl From<StateName> for String {
    fn from(name: StateName) -> Self {
        name.0
    }
}

impl PartialEq for StateName {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for StateName {}

impl Hash for StateName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.folded().hash(state);
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_schema!(
    StateName,
    "Letters, digits, `.`, `_`, `-`; starts with a letter or digit; at most 128 characters; unique without regard to case",
    "network"
);

/// The name of a workspace or an environment. The rules of state names, so that there is one rule to remember.
pub type DisplayName = StateName;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_plain_segment() {
        for good in ["a", "0", "Net", "prod-eu.west_1", &"x".repeat(128)] {
            assert!(good.parse::<StateName>().is_ok(), "{good:?}");
        }
        for bad in [
            "",
            ".",
            "..",
            ".a",
            "-a",
            "_a",
            "a/b",
            "a b",
            "a%2fb",
            "é",
            "a\0",
            &"x".repeat(129),
        ] {
            assert!(bad.parse::<StateName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn spelling_is_kept_and_case_does_not_count() {
        let (upper, lower): (StateName, StateName) =
            ("Net".parse().unwrap(), "net".parse().unwrap());
        assert_eq!(upper, lower);
        assert_eq!(upper.as_str(), "Net");
        assert_eq!(upper.folded(), "net");
    }
}
