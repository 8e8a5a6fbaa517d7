//! How people name a version: `7`, `head`, `@1`, a tag, or an id.

use protocol::states::Version;

use crate::client::Client;
use crate::config::StateAddress;
use crate::failure::{Failure, Result};

/// A version as it was named, checked for form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VersionRef {
    /// So many versions before the newest.
    Back(usize),
    /// A number, an id, a tag or `head`: the server knows which.
    Named(String),
}

/// Farther back than this, a number from `kl history` is the better name.
const FARTHEST: usize = 1_000;

impl VersionRef {
    /// # Errors
    /// A usage failure for an empty name, one with a slash, or `@` without a small number.
    pub(super) fn parse(text: &str) -> Result<Self> {
        if let Some(count) = text.strip_prefix('@') {
            return match count.parse() {
                Ok(count) if count < FARTHEST => Ok(Self::Back(count)),
                _ => Err(Failure::usage(format!(
                    "`{text}` names no version: after @ stands how many versions back, below {FARTHEST}"
                ))),
            };
        }
        match text {
            "head" | "current" => Ok(Self::Back(0)),
            _ if text.is_empty() || text.contains('/') || text.chars().any(char::is_control) => {
                Err(Failure::usage(format!("`{text}` names no version"))
                    .hint("run `kl history` for the versions there are"))
            }
            _ => Ok(Self::Named(text.to_owned())),
        }
    }

    /// The version itself.
    pub(super) async fn find(&self, client: &Client, state: &StateAddress) -> Result<Version> {
        match self {
            Self::Back(0) => Ok(client.get_version(state, "head").await?),
            Self::Back(count) => back(client, state, *count).await,
            Self::Named(name) => Ok(client.get_version(state, name).await?),
        }
    }

    /// A name that the server understands by itself; a request only where counting is needed.
    pub(super) async fn for_server(&self, client: &Client, state: &StateAddress) -> Result<String> {
        match self {
            Self::Back(0) => Ok("head".to_owned()),
            Self::Back(_) => Ok(self.find(client, state).await?.seq.to_string()),
            Self::Named(name) => Ok(name.clone()),
        }
    }
}

/// Numbers may have gaps, so going back means counting along the list.
async fn back(client: &Client, state: &StateAddress, count: usize) -> Result<Version> {
    let mut left = count;
    let mut cursor = None;
    loop {
        let page = client
            .list_versions(state, Some(left + 1), cursor.as_deref())
            .await?;
        let seen = page.versions.len();
        if let Some(version) = page.versions.into_iter().nth(left) {
            return Ok(version);
        }
        left -= seen;
        cursor = match page.next_cursor {
            Some(next) if seen > 0 => Some(next),
            _ => {
                return Err(Failure::failed(format!(
                    "state `{}` has no version @{count}: its history is shorter",
                    state.state
                ))
                .hint("run `kl history` for the versions there are"));
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_versions() {
        assert_eq!(VersionRef::parse("head").unwrap(), VersionRef::Back(0));
        assert_eq!(VersionRef::parse("@2").unwrap(), VersionRef::Back(2));
        assert_eq!(
            VersionRef::parse("7").unwrap(),
            VersionRef::Named("7".to_owned())
        );
        for text in ["", "@", "@-1", "@x", "@1000", "a/b"] {
            assert!(VersionRef::parse(text).is_err(), "{text}");
        }
    }
}
