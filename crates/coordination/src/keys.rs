//! Names of keys and channels.

use std::fmt;

use uuid::Uuid;

/// The layout of the tables. Another layout gets another number: replicas of the old one go on with theirs.
const LAYOUT: u32 = 1;

/// A state, as keys name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StateKey {
    /// The workspace's public id.
    pub workspace: String,
    /// The state's id.
    pub state: Uuid,
}

impl StateKey {
    /// The keys of the index, in the order in which every script declares them.
    pub(crate) fn tables(&self) -> [String; 5] {
        ["meta", "res", "node", "gap", "wait"].map(|table| format!("{self}:{table}"))
    }

    /// Where ends of reservations are told.
    pub(crate) fn channel(&self) -> String {
        format!("{self}:ended")
    }

    /// Reads [`Self::channel`] back.
    pub(crate) fn of_channel(channel: &str) -> Option<Self> {
        let (workspace, rest) = channel
            .strip_prefix(&format!("kl:{LAYOUT}:"))?
            .split_once(":{")?;
        let state = rest.strip_suffix("}:ended")?;
        Some(Self {
            workspace: workspace.to_owned(),
            state: Uuid::try_parse(state).ok()?,
        })
    }

    /// What matches the channels of all states.
    pub(crate) fn all_channels() -> String {
        format!("kl:{LAYOUT}:*:ended")
    }
}

impl fmt::Display for StateKey {
    /// The common part of all keys of a state; what is in braces decides the slot.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kl:{LAYOUT}:{}:{{{}}}", self.workspace, self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_names_its_state() {
        let key = StateKey {
            workspace: "ws_4f2a90c1d3e7".to_owned(),
            state: Uuid::from_u128(7),
        };
        assert_eq!(StateKey::of_channel(&key.channel()), Some(key));
        assert_eq!(StateKey::of_channel("kl:1:x:ended"), None);
    }
}
