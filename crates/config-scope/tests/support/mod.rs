//! What several test files of this crate share.

pub mod generate;
pub mod oracle;
pub mod shared;
