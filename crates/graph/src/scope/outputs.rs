//! The outputs of the root module, as a scope sees them.
//!
//! A targeted run evaluates an output exactly if it depends on a resource and all that it depends on
//! are part of the run. Others keep the value that the state has, and must keep it.

use crate::realized::{Csr, NodeId};

use super::drawn::Drawn;
use super::union::Union;
use super::walk::Nodes;

/// The outputs that have to do with a scope.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScopeOutputs {
    /// Those whose every dependency is part of the scope: they belong into the slice.
    pub inside: Vec<String>,
    /// Those of `inside` that depend on something written: the run may change them.
    pub written: Vec<String>,
    /// Those that depend on something that the run may change and on something beyond the scope.
    pub beyond: Vec<OutputBeyond>,
}

/// An output that a run on the scope cannot evaluate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutputBeyond {
    pub name: String,
    /// The blocks it depends on that are not part of the scope.
    pub outside: Vec<String>,
}

impl ScopeOutputs {
    pub(super) fn of(union: &Union<'_>, drawn: &Drawn, created: &Nodes) -> Self {
        let mut outputs = Self::default();
        let all = union
            .configuration
            .map_or(&[][..], |configuration| &configuration.outputs);
        if all.is_empty() {
            return outputs;
        }
        let changing = reaching_writes(union, drawn, created);
        for output in all {
            let mut inside = Vec::new();
            let mut outside: Vec<String> = Vec::new();
            for block in &output.dependencies {
                match union
                    .find(block.as_str())
                    .filter(|node| drawn.closure.contains(*node))
                {
                    Some(node) => inside.push(node),
                    None => outside.push(block.to_string()),
                }
            }
            let name = output.name.clone();
            if inside.is_empty() {
                continue;
            }
            let may_change = inside.into_iter().any(|node| changing.contains(node));
            if outside.is_empty() {
                if may_change {
                    outputs.written.push(name.clone());
                }
                outputs.inside.push(name);
            } else if may_change {
                outside.sort_unstable();
                outside.dedup();
                outputs.beyond.push(OutputBeyond { name, outside });
            }
        }
        outputs.inside.sort_unstable();
        outputs.written.sort_unstable();
        outputs.beyond.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        outputs
    }
}

/// The blocks of the scope that are written or depend on one that is.
fn reaching_writes(union: &Union<'_>, drawn: &Drawn, created: &Nodes) -> Nodes {
    let mut backwards = Vec::new();
    for node in drawn.closure.iter() {
        backwards.extend(
            union
                .dependencies(node)
                .map(|dependency| (dependency.0, node.0)),
        );
    }
    let backwards = Csr::new(union.len(), &backwards);
    let mut reaching = Nodes::none(union);
    let written = drawn.closure.iter().filter(|node| drawn.writes(*node));
    let mut found: Vec<NodeId> = written.chain(created.iter()).collect();
    while let Some(node) = found.pop() {
        if reaching.add(node) {
            found.extend(backwards.get(node.index()).iter().copied().map(NodeId));
        }
    }
    reaching
}
