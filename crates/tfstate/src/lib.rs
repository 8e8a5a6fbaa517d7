//! Terraform state documents: lossless split and render, addresses, order and digests.
//!
//! [`parse`] reads a version 4 document in one pass and yields a [`State`]: a [`Header`], its large
//! [`Part`]s, and rows for outputs and resource instances that borrow from the posted bytes.
//! [`Renderer`] builds the document back from the same pieces. Attribute values are never
//! interpreted: they stay the bytes they were.
//!
//! Not for: I/O, storage, locks, or any decision about who may write what. The rule for adding
//! here: a function belongs in this crate when it needs nothing but the bytes of a document.

mod address;
mod digest;
mod document;
mod header;
mod json;
mod members;
mod ord;
mod refusal;
mod render;
mod rewrite;
mod serial;
mod sink;

pub use address::{Address, AddressError, Key, Mode, ModulePath, ModuleStep};
pub use digest::{Digest, RowsDigest, instance_digest, output_digest};
pub use document::{
    Block, Document, Instance, MAX_ROWS, Opaque, OpaqueReason, Output, Part, RowKind, State, parse,
};
pub use header::{Header, HeaderError};
pub use json::{MAX_DEPTH, decode_string, encode_string};
pub use members::{InstanceMembers, instance_members, string_array};
pub use ord::{OrdError, OrdKey, Place};
pub use refusal::{ByteOrder, Refusal};
pub use render::{MissingPart, Renderer};
pub use rewrite::{
    Step, block_at, body_with_attribute, body_with_dependencies, body_with_key, says_the_same,
    value_at,
};
pub use serial::with_serial;
