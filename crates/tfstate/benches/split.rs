//! The cost of splitting a document, beside plain SHA-256 of the same bytes.
fn main() {}
