//! What a reader allows.

use crate::format::MAX_VERSIONS;
use crate::sign::{OriginRule, PublicKey};

/// Memory a reader may use when nothing else is said.
pub const DEFAULT_MEMORY_BYTES: u64 = 512 << 20;

/// Limits and demands of a reader. The limits of the format itself are constants of this crate.
#[derive(Clone, Copy)]
pub struct Policy<'a> {
    /// Most bytes the archive may unpack to; what it declares itself binds as well.
    pub total_bytes: u64,
    /// Most versions; never more than the format allows.
    pub versions: u64,
    /// Memory for the window of zstd, the current document and its rows. A document needs its size
    /// and a few hundred bytes a row; a history that changes all of it between two key frames
    /// needs it twice.
    pub memory_bytes: u64,
    pub origin: OriginRule,
    /// Keys whose archives are one's own.
    pub trusted: &'a [PublicKey],
    /// Asked now and then; `true` stops reading. For deadlines, CPU budgets and cancelled jobs.
    pub stop: Option<&'a dyn Fn() -> bool>,
}

impl<'a> Policy<'a> {
    /// Only archives signed with these keys, unpacking to at most so many bytes.
    pub fn trusting(trusted: &'a [PublicKey], total_bytes: u64) -> Self {
        Self {
            total_bytes,
            versions: MAX_VERSIONS,
            memory_bytes: DEFAULT_MEMORY_BYTES,
            origin: OriginRule::Trusted,
            trusted,
            stop: None,
        }
    }

    /// Any sound archive, whoever made it: for looking at one's own files.
    pub fn any_origin(total_bytes: u64) -> Self {
        Self {
            origin: OriginRule::Any,
            ..Self::trusting(&[], total_bytes)
        }
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop())
    }
}
