//! What the tests of this crate share: where the shared inputs are, and a state or a panic.

use std::path::PathBuf;

use tfstate::{Document, State, parse};

/// A path below the shared inputs: `KL_SHARED_DIR`, or `shared` beside the workspace.
pub fn shared(path: &str) -> PathBuf {
    let root = std::env::var_os("KL_SHARED_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    let path = root.join(path);
    assert!(
        path.exists(),
        "{} is missing; set KL_SHARED_DIR",
        path.display()
    );
    path
}

/// The rows of a document that must be a readable state.
pub fn state(bytes: &[u8]) -> State<'_> {
    match parse(bytes).expect("the document is accepted") {
        Document::State(state) => state,
        Document::Opaque(opaque) => panic!("not readable as rows: {:?}", opaque.reason),
    }
}
