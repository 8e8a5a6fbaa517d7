//! Snapshots of graphs as bytes: what they are of, proven, compressed. Pure.
//!
//! ```text
//! snapshot = format:u8 seal:[u8;32] length:u32 workspace:byte* state:[u8;16] seq:i64 version:[u8;16] zstd(graph)
//! seal     = HMAC-SHA256 of all that follows it
//! ```
//!
//! The seal is made with a key of the deployment: who can write to the cache and nowhere else cannot have a graph believed.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use super::GraphKey;
use graph::{DecodeError, RealizedGraph};

/// The format this code writes, and the only one it reads.
const FORMAT: u8 = 1;
const SEAL_BYTES: usize = 32;
/// Snapshots above this size are not published: they would crowd out those of others.
pub(super) const LARGEST_BYTES: usize = 16 * 1024 * 1024;
/// A graph that would take more memory is not unpacked.
const LARGEST_GRAPH_BYTES: usize = 256 * 1024 * 1024;
/// The fastest level: what is packed is front-coded already, and a replica waits while it is unpacked.
const LEVEL: i32 = 1;

/// Seals snapshots. All replicas of a deployment have the same.
#[derive(Clone)]
pub(super) struct SnapshotKey([u8; 32]);

/// A graph, packed.
pub(super) struct Packed {
    pub(super) bytes: Vec<u8>,
    /// The beginning of its seal.
    pub(super) digest: [u8; 16],
}

/// Why bytes are not the snapshot they were taken for.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotASnapshot {
    #[error("it is of another format")]
    OtherFormat,
    #[error("it is not what was sealed")]
    Broken,
    #[error("it is of another version than its key says")]
    OtherVersion,
    #[error("it cannot be unpacked")]
    Compression(#[source] std::io::Error),
    #[error("it holds no graph: {0}")]
    NoGraph(#[from] DecodeError),
}

impl SnapshotKey {
    pub(super) fn new(deployment_key: &[u8; 32]) -> Self {
        let key =
            Sha256::new_with_prefix(b"kilolock graph snapshots 1\n").chain_update(deployment_key);
        Self(key.finalize().into())
    }

    /// Packs the graph of a version; `None` if that is too large to be shared.
    pub(super) fn pack(&self, key: &GraphKey, graph: &RealizedGraph) -> Option<Packed> {
        let content = graph.encode(*key.state.as_bytes());
        let content = zstd::bulk::compress(&content, LEVEL).ok()?;
        let mut sealed = header(key);
        sealed.extend_from_slice(&content);
        let seal: [u8; SEAL_BYTES] = self.mac(&sealed).finalize().into_bytes().into();
        let mut bytes = Vec::with_capacity(1 + SEAL_BYTES + sealed.len());
        bytes.push(FORMAT);
        bytes.extend_from_slice(&seal);
        bytes.extend_from_slice(&sealed);
        let digest = *seal.first_chunk()?;
        (bytes.len() <= LARGEST_BYTES).then_some(Packed { bytes, digest })
    }

    /// Unpacks what is to be the snapshot of this version with this digest.
    pub(super) fn unpack(
        &self,
        key: &GraphKey,
        digest: [u8; 16],
        bytes: &[u8],
    ) -> Result<RealizedGraph, NotASnapshot> {
        let (format, rest) = bytes.split_first().ok_or(NotASnapshot::OtherFormat)?;
        if *format != FORMAT {
            return Err(NotASnapshot::OtherFormat);
        }
        let (seal, sealed) = rest
            .split_first_chunk::<SEAL_BYTES>()
            .ok_or(NotASnapshot::Broken)?;
        self.mac(sealed)
            .verify_slice(seal)
            .map_err(|_| NotASnapshot::Broken)?;
        let content = sealed.strip_prefix(&header(key)[..]);
        let content = content.filter(|_| seal.starts_with(&digest));
        let content = content.ok_or(NotASnapshot::OtherVersion)?;
        let graph = zstd::bulk::decompress(content, LARGEST_GRAPH_BYTES / 2)
            .map_err(NotASnapshot::Compression)?;
        let graph = RealizedGraph::decode(&graph, *key.state.as_bytes(), LARGEST_GRAPH_BYTES)?;
        if graph.seq().0 == key.seq.unsigned_abs() {
            Ok(graph)
        } else {
            Err(NotASnapshot::OtherVersion)
        }
    }

    fn mac(&self, bytes: &[u8]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("a MAC takes a key of any length");
        mac.update(bytes);
        mac
    }
}

/// What the snapshot is of.
fn header(key: &GraphKey) -> Vec<u8> {
    let workspace = key.workspace.as_str().as_bytes();
    let mut header = Vec::with_capacity(4 + workspace.len() + 16 + 8 + 16);
    header.extend_from_slice(
        &u32::try_from(workspace.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes(),
    );
    header.extend_from_slice(workspace);
    header.extend_from_slice(key.state.as_bytes());
    header.extend_from_slice(&key.seq.to_be_bytes());
    header.extend_from_slice(key.version.as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use graph::{InstanceRow, Object, RowRef, Seq};
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn key(seq: i64) -> GraphKey {
        GraphKey {
            workspace: "ws_4f2a90c1d3e7".parse().unwrap(),
            state: Uuid::from_u128(1),
            seq,
            version: Uuid::from_u128(2),
        }
    }

    /// Blocks `0..count`, each with an instance or two and a few dependencies on earlier ones.
    fn graph(seq: i64, blocks: &[(u8, bool)]) -> RealizedGraph {
        let mut builder = graph::GraphBuilder::new(Seq(seq.unsigned_abs()));
        for (number, (back, has_deposed)) in blocks.iter().enumerate() {
            let config_address = format!("module.m.aws_thing.n{number}");
            let before = number.checked_sub(usize::from(*back) + 1);
            let dependencies: Vec<String> = before
                .map(|before| format!("module.m.aws_thing.n{before}"))
                .into_iter()
                .collect();
            let address = format!("module.m[\"k\"].aws_thing.n{number}");
            let objects = [Object::Current, Object::Deposed("00c0ffee")];
            for object in &objects[..1 + usize::from(*has_deposed)] {
                let row = RowRef {
                    address: &address,
                    object: *object,
                };
                builder
                    .add(InstanceRow {
                        row,
                        config_address: &config_address,
                        dependencies: &dependencies,
                        born: Seq(1),
                    })
                    .unwrap();
            }
        }
        builder.finish()
    }

    fn encoded(graph: &RealizedGraph) -> Vec<u8> {
        graph.encode([0; 16])
    }

    proptest! {
        #[test]
        fn a_graph_is_unpacked_as_it_was_packed(
            blocks in prop::collection::vec((any::<u8>(), any::<bool>()), 0..60),
            seq in 1_i64..1_000_000,
        ) {
            let signer = SnapshotKey::new(&[7; 32]);
            let graph = graph(seq, &blocks);
            let packed = signer.pack(&key(seq), &graph).unwrap();
            let again = signer.unpack(&key(seq), packed.digest, &packed.bytes).unwrap();
            prop_assert_eq!(encoded(&again), encoded(&graph));
        }

        #[test]
        fn damaged_bytes_are_never_taken_for_a_graph(
            blocks in prop::collection::vec((any::<u8>(), any::<bool>()), 1..20),
            flips in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..8), 1..4),
            cut in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let signer = SnapshotKey::new(&[7; 32]);
            let packed = signer.pack(&key(5), &graph(5, &blocks)).unwrap();
            let mut bytes = packed.bytes.clone();
            for (place, bit) in &flips {
                let place = place.index(bytes.len());
                bytes[place] ^= 1 << bit;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            let unpacked = signer.unpack(&key(5), packed.digest, &bytes);
            prop_assert!(unpacked.is_err() || bytes == packed.bytes);
        }

        #[test]
        fn any_bytes_at_all_are_no_graph(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let signer = SnapshotKey::new(&[7; 32]);
            prop_assert!(signer.unpack(&key(5), [0; 16], &bytes).is_err());
        }
    }

    #[test]
    fn a_snapshot_is_good_for_its_own_version_and_deployment_alone() {
        let signer = SnapshotKey::new(&[7; 32]);
        let packed = signer.pack(&key(5), &graph(5, &[(0, true)])).unwrap();
        let unpack = |signer: &SnapshotKey, key: &GraphKey, digest| {
            let unpacked = signer.unpack(key, digest, &packed.bytes);
            unpacked.map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(unpack(&signer, &key(5), packed.digest), Ok(()));
        let other = NotASnapshot::OtherVersion.to_string();
        assert_eq!(unpack(&signer, &key(5), [0; 16]), Err(other.clone()));
        let others = [
            key(6),
            GraphKey {
                version: Uuid::from_u128(3),
                ..key(5)
            },
            GraphKey {
                state: Uuid::from_u128(3),
                ..key(5)
            },
            GraphKey {
                workspace: "ws_000000000000".parse().unwrap(),
                ..key(5)
            },
        ];
        for key in &others {
            assert_eq!(unpack(&signer, key, packed.digest), Err(other.clone()));
        }
        let stranger = SnapshotKey::new(&[8; 32]);
        let broken = NotASnapshot::Broken.to_string();
        assert_eq!(unpack(&stranger, &key(5), packed.digest), Err(broken));
    }
}
