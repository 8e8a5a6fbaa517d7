//! Building a graph row by row, so that the rows of a large state never stand in memory beside it.

use super::{GraphError, InstanceRow, NodeId, RealizedGraph, Seq};

/// A graph that is being built.
#[derive(Debug)]
pub struct GraphBuilder {
    graph: RealizedGraph,
    list: Vec<NodeId>,
}

impl GraphBuilder {
    /// The graph of version `seq`, without rows yet.
    pub fn new(seq: Seq) -> Self {
        Self {
            graph: RealizedGraph::empty(seq),
            list: Vec::new(),
        }
    }

    /// Adds a row that lives in the version. After an error the builder must not be used.
    pub fn add(&mut self, row: InstanceRow<'_>) -> Result<(), GraphError> {
        self.graph.add_row(row, &mut self.list)?;
        Ok(())
    }

    /// The graph of the rows added.
    pub fn finish(self) -> RealizedGraph {
        self.graph
    }
}
