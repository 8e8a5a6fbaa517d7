//! Text that must not be shown: tokens and the passwords of a backend block.

use std::fmt;

/// A secret string. `Debug` hides it and there is no `Display`, so that it cannot reach a log, an
/// error or the terminal by accident; whoever needs the text says so by calling [`Secret::expose`].
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// The byte offset of the first Kilolock token in `text`, if there is one.
///
/// The published pattern: `klp_`, `kls_` or `klr_`, then the id, the random part and the checksum,
/// 50 characters of letters and digits. Anything at least 40 long counts, so that a token that was
/// cut short or split by underscores is still noticed.
pub(crate) fn find_token(text: &str) -> Option<usize> {
    const SHORTEST_BODY: usize = 40;
    let starts = ["klp_", "kls_", "klr_"];
    let mut from = 0;
    while let Some(at) = text[from..].find("kl").map(|at| from + at) {
        let rest = &text[at..];
        if starts.iter().any(|start| rest.starts_with(start)) {
            let body = rest[4..]
                .bytes()
                .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
                .count();
            if body >= SHORTEST_BODY {
                return Some(at);
            }
        }
        from = at + 2;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing_of_it() {
        assert_eq!(format!("{:?}", Secret::new("klp_abc")), "[redacted]");
    }

    #[test]
    fn a_token_is_found_where_it_starts_and_a_bare_prefix_is_none() {
        let token = format!("kls_{}", "a1".repeat(25));
        assert_eq!(find_token(&format!("x = \"{token}\"")), Some(5));
        assert_eq!(find_token("token_env = \"kls_TOKEN\" # klp_"), None);
        assert_eq!(find_token("kl kl klé"), None);
    }
}
