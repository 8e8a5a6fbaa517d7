//! Real states: every document of the shared corpus that has rows.

use std::path::PathBuf;

use graph::{ConfigAddress, RealizedGraph};
use tfstate::{Document, RowKind};

use crate::support::rows::{Row, State, Which};

/// A path below the shared inputs: `KL_SHARED_DIR`, or `shared` beside the workspace.
fn shared(path: &str) -> PathBuf {
    let root = std::env::var_os("KL_SHARED_DIR").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
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

fn state(document: &tfstate::State<'_>) -> State {
    let mut state = State {
        seq: 1,
        ..State::default()
    };
    for row in &document.instances {
        let address = document.address(row);
        let object = match row.kind {
            RowKind::Current => Which::Current,
            RowKind::Deposed => Which::Deposed(row.deposed.clone().unwrap().into_owned()),
            RowKind::Shell => Which::Shell,
        };
        let dependencies = document.dependencies(row);
        let row = Row {
            config_address: address.config_address(),
            dependencies,
            born: 1,
        };
        state.rows.insert((address.to_string(), object), row);
    }
    assert_eq!(state.rows.len(), document.instances.len());
    state
}

#[test]
fn states_from_practice_become_graphs_and_read_back() {
    let mut instances = 0;
    for file in std::fs::read_dir(shared("corpus/states")).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let Ok(Document::State(document)) = tfstate::parse(&bytes) else {
            continue;
        };
        let state = state(&document);
        let graph = state.graph();
        let encoded = graph.encode([0; 16]);
        let decoded = RealizedGraph::decode(&encoded, [0; 16], 1 << 24).unwrap();
        assert_eq!(decoded.encode([0; 16]), encoded, "{}", path.display());
        for row in state.rows.values() {
            let block: ConfigAddress = row.config_address.parse().unwrap();
            let known = decoded.dependencies_of(&block);
            for dependency in &row.dependencies {
                let readable: Result<ConfigAddress, _> = dependency.parse();
                assert!(readable.is_ok(), "{}: {dependency}", path.display());
                assert!(
                    known.contains(&dependency.as_str()),
                    "{}: {dependency}",
                    path.display()
                );
            }
        }
        instances += state.rows.len();
    }
    assert!(
        instances > 1_000,
        "only {instances} instances in the corpus"
    );
}
