//! Keys of objects. No text of a user ever stands in one.

use std::fmt;
use std::str::FromStr;

/// `w/<workspace>/<job>/<random>`, with `q/<random>/<number>` in the last place for parts of an upload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(String);

/// The text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no key of an object")]
pub struct InvalidKey;

/// Longer keys do not exist.
const LONGEST: usize = 256;

impl ObjectKey {
    /// A key below this prefix that nobody can guess.
    #[must_use]
    pub fn random_below(prefix: &str) -> Self {
        Self(format!("{prefix}{:032x}", rand::random::<u128>()))
    }

    /// The key as it stands in the store.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ObjectKey {
    type Err = InvalidKey;

    /// Segments of lower-case letters, digits and `_`, so that a key is a path below the root and nothing else.
    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
        let sound = text.len() <= LONGEST
            && text.contains('/')
            && text
                .split('/')
                .all(|segment| !segment.is_empty() && segment.bytes().all(plain));
        if sound {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidKey)
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_path_below_the_root_and_nothing_else() {
        for sound in ["w/ws_0a/job_1/0f", "w/ws_0a/job_1/q/0f/12"] {
            assert!(sound.parse::<ObjectKey>().is_ok(), "{sound}");
        }
        let long = format!("w/{}", "a".repeat(300));
        for odd in [
            "", "w", "/w/a", "w//a", "w/../a", "w/a/", "w/A", "w/a b", "w/a\0", &long,
        ] {
            assert!(odd.parse::<ObjectKey>().is_err(), "{odd}");
        }
    }
}
