//! Snapshots of dependency graphs, for replicas that have none of their own: a cache, from which anything may vanish.
//!
//! A state has one snapshot at a time, and a pointer to it. The key of the snapshot names the version it is of and the
//! digest of its bytes, so a pointer to one never leads to another. Both end by themselves some time after nobody publishes
//! any more. Nothing here is looked into: whether the bytes are what they claim to be is the reader's to prove.
//!
//! Not for: the index of reservations. Its tables must not vanish, so they live under other keys, and may live on another
//! server.

use uuid::Uuid;

use crate::{Away, Link, StateKey};

/// The layout of keys and pointers. Another layout gets another number.
const LAYOUT: u32 = 1;
/// How long a snapshot is kept after it was published.
const KEPT_SECONDS: u64 = 3_600;
/// How long others leave the building of a graph to who began it. One who died in the midst is not waited for longer.
const BUILDING_MS: u64 = 10_000;

/// What a snapshot is of, and what its bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    pub seq: i64,
    pub version: Uuid,
    /// The beginning of the digest of the bytes.
    pub digest: [u8; 16],
}

/// A snapshot as it was found: its label, and bytes that claim to be it.
#[derive(Debug, Clone)]
pub struct Shelved {
    pub label: Label,
    pub bytes: Vec<u8>,
}

/// Where snapshots lie. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Shelf {
    link: Link,
}

impl Shelf {
    /// A shelf on this server, which may evict what lies there.
    #[must_use]
    pub fn new(link: Link) -> Self {
        Self { link }
    }

    /// What the newest snapshot of a state is of.
    pub async fn find_label(&self, key: &StateKey) -> Result<Option<Label>, Away> {
        let pointer: Option<String> = self.link.query(redis::cmd("GET").arg(pointer(key))).await?;
        Ok(pointer.as_deref().and_then(read_label))
    }

    /// The newest snapshot of a state.
    pub async fn find(&self, key: &StateKey) -> Result<Option<Shelved>, Away> {
        let Some(label) = self.find_label(key).await? else {
            return Ok(None);
        };
        let mut get = redis::cmd("GET");
        get.arg(place(key, &label));
        let bytes: Option<Vec<u8>> = self.link.query(&get).await?;
        Ok(bytes.map(|bytes| Shelved { label, bytes }))
    }

    /// Puts a snapshot in the stead of an older one; one of a later version stays.
    pub async fn put(&self, key: &StateKey, label: &Label, bytes: &[u8]) -> Result<(), Away> {
        let before = self.find_label(key).await?;
        if before.is_some_and(|before| before.seq > label.seq || before == *label) {
            return Ok(());
        }
        // The snapshot first: a pointer to nothing is a miss for whoever follows it.
        self.set(&place(key, label), bytes).await?;
        self.set(&pointer(key), write_label(label).as_bytes())
            .await?;
        if let Some(before) = before {
            self.remove(&place(key, &before)).await?;
        }
        Ok(())
    }

    /// Takes a snapshot away that is not what it claims to be.
    pub async fn discard(&self, key: &StateKey, label: &Label) -> Result<(), Away> {
        self.remove(&pointer(key)).await?;
        self.remove(&place(key, label)).await
    }

    /// Whether the caller is the one who builds the graph of this version. All others find it on the shelf soon.
    pub async fn begin_building(&self, key: &StateKey, version: Uuid) -> Result<bool, Away> {
        let mut set = redis::cmd("SET");
        set.arg(building(key, version))
            .arg(1)
            .arg("NX")
            .arg("PX")
            .arg(BUILDING_MS);
        let done: Option<String> = self.link.query(&set).await?;
        Ok(done.is_some())
    }

    /// Tells that nobody builds the graph of this version any more.
    pub async fn end_building(&self, key: &StateKey, version: Uuid) -> Result<(), Away> {
        self.remove(&building(key, version)).await
    }

    async fn set(&self, key: &str, value: &[u8]) -> Result<(), Away> {
        let mut set = redis::cmd("SET");
        set.arg(key).arg(value).arg("EX").arg(KEPT_SECONDS);
        self.link.query(&set).await
    }

    async fn remove(&self, key: &str) -> Result<(), Away> {
        let mut unlink = redis::cmd("UNLINK");
        unlink.arg(key);
        let _: i64 = self.link.query(&unlink).await?;
        Ok(())
    }
}

/// The common part of the keys of a state.
fn prefix(key: &StateKey) -> String {
    format!("klg:{LAYOUT}:{}:{{{}}}", key.workspace, key.state)
}

fn pointer(key: &StateKey) -> String {
    format!("{}:newest", prefix(key))
}

fn place(key: &StateKey, label: &Label) -> String {
    format!("{}:{}", prefix(key), write_label(label))
}

fn building(key: &StateKey, version: Uuid) -> String {
    format!("{}:building:{version}", prefix(key))
}

fn write_label(label: &Label) -> String {
    let digest = Uuid::from_bytes(label.digest).simple();
    format!("{}:{}:{digest}", label.seq, label.version)
}

fn read_label(text: &str) -> Option<Label> {
    let mut parts = text.split(':');
    let label = Label {
        seq: parts.next()?.parse().ok()?,
        version: Uuid::try_parse(parts.next()?).ok()?,
        digest: Uuid::try_parse(parts.next()?).ok()?.into_bytes(),
    };
    parts.next().is_none().then_some(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_a_state_are_in_the_slot_of_its_tables() {
        let key = StateKey {
            workspace: "ws_4f2a90c1d3e7".to_owned(),
            state: Uuid::from_u128(0x0199_0000_1234),
        };
        let label = Label {
            seq: 7,
            version: Uuid::from_u128(7),
            digest: [9; 16],
        };
        let slot = crate::keys::tests::slot;
        for one in [
            pointer(&key),
            place(&key, &label),
            building(&key, label.version),
        ] {
            assert_eq!(slot(&one), slot(&key.tables()[0]), "{one}");
        }
    }

    #[test]
    fn a_label_is_read_as_it_was_written() {
        let label = Label {
            seq: 1_007,
            version: Uuid::from_u128(7),
            digest: [9; 16],
        };
        assert_eq!(read_label(&write_label(&label)), Some(label));
        for other in [
            "",
            "7",
            "7:x:y",
            "a:b:c:d",
            &format!("{}:", write_label(&label)),
        ] {
            assert_eq!(read_label(other), None, "{other}");
        }
    }
}
