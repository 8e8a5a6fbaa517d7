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
        self.channel_of(News::Ended)
    }

    /// Where this kind of news is told.
    pub(crate) fn channel_of(&self, news: News) -> String {
        format!("{self}:{}", news.word())
    }

    /// Reads [`Self::channel_of`] back.
    pub(crate) fn of_channel(channel: &str) -> Option<(Self, News)> {
        let (workspace, rest) = channel
            .strip_prefix(&format!("kl:{LAYOUT}:"))?
            .split_once(":{")?;
        let (state, word) = rest.split_once("}:")?;
        let key = Self {
            workspace: workspace.to_owned(),
            state: Uuid::try_parse(state).ok()?,
        };
        let news = News::ALL.into_iter().find(|news| news.word() == word)?;
        Some((key, news))
    }

    /// What matches the channels of all states.
    pub(crate) fn all_channels() -> [String; 2] {
        News::ALL.map(|news| format!("kl:{LAYOUT}:*:{}", news.word()))
    }
}

/// What is told of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// A reservation has ended, or the table was loaded: whoever waits asks again.
    Ended,
    /// Something that only those want to see who watch the state: a grant, a version, a run, somebody who waits.
    Changed,
}

impl News {
    const ALL: [Self; 2] = [Self::Ended, Self::Changed];

    const fn word(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Changed => "changed",
        }
    }
}

impl fmt::Display for StateKey {
    /// The common part of all keys of a state; what is in braces decides the slot.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kl:{LAYOUT}:{}:{{{}}}", self.workspace, self.state)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The slot of a key, as a cluster reckons it: CRC16 (XMODEM) of what stands in the first braces, or of all.
    pub(crate) fn slot(key: &str) -> u16 {
        let tag = key
            .split_once('{')
            .and_then(|(_, rest)| Some(rest.split_once('}')?.0))
            .filter(|tag| !tag.is_empty());
        let step = |sum: u16, byte: &u8| {
            (0..8).fold(sum ^ (u16::from(*byte) << 8), |sum, _| {
                let shifted = sum << 1;
                if sum & 0x8000 == 0 {
                    shifted
                } else {
                    shifted ^ 0x1021
                }
            })
        };
        let sum = tag.unwrap_or(key).as_bytes().iter().fold(0, step);
        sum % 16_384
    }

    #[test]
    fn slots_are_reckoned_as_a_cluster_does() {
        // `CLUSTER KEYSLOT` says so.
        assert_eq!(slot("123456789"), 0x31c3);
        assert_eq!(slot("foo{hash_tag}"), 2_515);
        assert_eq!(slot("foo{}{bar}"), 8_363);
        assert_eq!(slot("foo{{bar}}zap"), 4_015);
    }

    #[test]
    fn all_tables_of_a_state_are_in_one_slot_and_those_of_many_are_spread() {
        let states = (0..500).map(|_| StateKey {
            workspace: "ws_4f2a90c1d3e7".to_owned(),
            state: Uuid::now_v7(),
        });
        let mut slots = std::collections::BTreeSet::new();
        for state in states {
            let of_tables = state.tables().map(|table| slot(&table));
            assert!(of_tables.iter().all(|one| *one == of_tables[0]), "{state}");
            slots.insert(of_tables[0]);
        }
        assert!(slots.len() > 450, "{}", slots.len());
    }

    /// A script may only touch the keys that it declares: in a cluster the others are elsewhere.
    #[test]
    fn the_scripts_touch_nothing_but_the_tables() {
        let scripts = [
            include_str!("scripts/prelude.lua"),
            include_str!("scripts/admit.lua"),
            include_str!("scripts/confirm.lua"),
            include_str!("scripts/end.lua"),
            include_str!("scripts/forget.lua"),
            include_str!("scripts/leave.lua"),
            include_str!("scripts/load.lua"),
            include_str!("scripts/waiting.lua"),
        ];
        let mut calls = 0;
        for script in scripts {
            for call in script.split("redis.call(").skip(1) {
                let call = call.split_once(')').map_or(call, |(call, _)| call);
                let mut words = call
                    .split(',')
                    .map(|word| word.trim().trim_matches(['(', '\'']));
                let (command, keys) = (words.next(), words.next());
                let is_fine = match command {
                    Some("TIME") => keys.is_none(),
                    // A channel is no key.
                    Some("PUBLISH") => keys == Some("channel"),
                    _ => matches!(keys, Some("meta" | "res" | "node" | "gap" | "wait")),
                };
                assert!(is_fine, "redis.call({call})");
                calls += 1;
            }
        }
        assert!(calls > 40, "{calls}");
    }

    #[test]
    fn a_channel_names_its_state() {
        let key = StateKey {
            workspace: "ws_4f2a90c1d3e7".to_owned(),
            state: Uuid::from_u128(7),
        };
        for news in News::ALL {
            let channel = key.channel_of(news);
            assert_eq!(StateKey::of_channel(&channel), Some((key.clone(), news)));
        }
        for other in ["kl:1:x:ended", &format!("{key}:other"), &key.to_string()] {
            assert_eq!(StateKey::of_channel(other), None, "{other}");
        }
    }
}
