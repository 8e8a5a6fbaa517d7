//! What the tests and benchmarks of this crate share: where the shared inputs are, generated
//! states, and trees that print in Terraform's layout or any other.
#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod tree;

use std::path::PathBuf;
use std::process::Command;

use tfstate::{Document, State, parse};

/// A path below the shared inputs: `KL_SHARED_DIR`, or `shared` beside the workspace.
pub(crate) fn shared(path: &str) -> PathBuf {
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

pub(crate) fn corpus_file(name: &str) -> Vec<u8> {
    std::fs::read(shared("corpus/states").join(name)).expect("the corpus file is readable")
}

pub(crate) fn case_file(name: &str) -> Vec<u8> {
    std::fs::read(shared("cases/files").join(name)).expect("the case file is readable")
}

/// A state as Terraform would write it, by `gen_state.py`.
pub(crate) fn generated(arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("python3")
        .arg(shared("corpus/gen_state.py"))
        .args(arguments)
        .output()
        .expect("python3 runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// The rows of a document that must be a readable state.
pub(crate) fn state(bytes: &[u8]) -> State<'_> {
    match parse(bytes).expect("the document is accepted") {
        Document::State(state) => state,
        Document::Opaque(opaque) => panic!("not readable as rows: {:?}", opaque.reason),
    }
}

/// The rows of a document in rendered form.
pub(crate) fn canonical(bytes: &[u8]) -> State<'_> {
    let mut state = state(bytes);
    state.canonicalise(|_, _| false);
    state
}
