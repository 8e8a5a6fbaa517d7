//! Reading archives: verify first, then read the versions of what was verified.

mod entries;
mod info;
mod policy;
mod prover;
mod verify;
mod versions;
mod walk;

pub use policy::{DEFAULT_MEMORY_BYTES, Policy};
pub use verify::{Verified, inspect, verify};
pub use versions::{Version, VersionContent, VersionRows, Versions, read_versions};
pub use walk::VersionEntry;
