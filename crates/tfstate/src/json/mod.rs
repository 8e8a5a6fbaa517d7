//! JSON as bytes: a validating scanner that yields spans, Go's reading of strings and field names,
//! and the white space Terraform writes. No tree, no numbers: what is not needed is not decoded.

mod layout;
mod scan;
mod text;

pub(crate) use layout::{Shape, is_rendered, render};
pub use scan::MAX_DEPTH;
pub(crate) use scan::{ScanError, Scanner};
pub(crate) use text::folds_to;
pub use text::{decode_string, encode_string};
