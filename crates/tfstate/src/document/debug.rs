//! What a split document shows of itself in a message: places, sizes and digests, never contents.
//! A state holds secrets, and a `{:?}` in a log line must not spill them.

use std::fmt;

use super::{Block, Instance, Output, Part, State};

impl fmt::Debug for State<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("serial", &self.serial)
            .field("lineage", &self.lineage)
            .field("terraform_version", &self.terraform_version)
            .field("ambiguous", &self.ambiguous)
            .field("header", &self.header)
            .field("parts", &self.parts)
            .field("outputs", &self.outputs)
            .field("instances", &self.instances)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Part({} bytes, {})", self.body.len(), self.digest)
    }
}

impl fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Output({:?}, {} bytes, {})",
            self.name,
            self.body.len(),
            self.digest
        )
    }
}

impl fmt::Debug for Block<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Block({}, {} bytes)",
            self.address(None),
            self.text.len()
        )
    }
}

impl fmt::Debug for Instance<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, kind, len) = (self.place(), self.kind, self.body.len());
        write!(
            f,
            "Instance({place:?}, {kind:?}, {len} bytes, {})",
            self.digest
        )
    }
}
