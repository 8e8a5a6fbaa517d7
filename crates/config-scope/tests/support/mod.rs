//! What several test files of this crate share.

pub(crate) mod generate;
pub(crate) mod oracle;
pub(crate) mod shared;
pub(crate) mod translate;
