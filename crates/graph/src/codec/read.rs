//! Reading graphs, from bytes that may be anything.

use std::cmp::Ordering;

use super::bytes::Input;
use super::{CURRENT, DEPOSED, FORMAT, SHELL};
use crate::RealizedGraph;
use crate::realized::{GraphError, NodeId, Object, RowRef, Seq};

/// Memory a node takes besides its name: its place in tables and arrays, rounded up.
const NODE_BYTES: usize = 64;

/// Memory an instance takes besides its address.
const INSTANCE_BYTES: usize = 96;

/// Memory a dependency list takes, and each of its members.
const LIST_BYTES: usize = 48;
const MEMBER_BYTES: usize = 4;

/// Why bytes are not the graph that was asked for. To a cache each of these is a miss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("the graph is written in another format")]
    OtherFormat,
    #[error("the graph belongs to another state")]
    OtherState,
    #[error("the bytes are damaged")]
    Damaged,
    #[error("the bytes are no graph")]
    Malformed,
    #[error("the graph is larger than allowed")]
    TooLarge,
}

impl From<GraphError> for DecodeError {
    fn from(error: GraphError) -> Self {
        match error {
            GraphError::TooLarge => Self::TooLarge,
            _ => Self::Malformed,
        }
    }
}

pub(super) fn decode(
    bytes: &[u8],
    state: [u8; 16],
    max_bytes: usize,
) -> Result<RealizedGraph, DecodeError> {
    let (content, sum) = bytes.split_last_chunk().ok_or(DecodeError::Malformed)?;
    let mut reader = Reader {
        input: Input { rest: content },
        left: max_bytes,
    };
    if reader.input.byte()? != FORMAT {
        return Err(DecodeError::OtherFormat);
    }
    if crc32fast::hash(content).to_le_bytes() != *sum {
        return Err(DecodeError::Damaged);
    }
    if *reader.input.take(state.len())? != state {
        return Err(DecodeError::OtherState);
    }
    let seq = Seq(reader.input.int()?);
    let mut graph = RealizedGraph::unindexed(seq);
    let nodes = reader.names(&mut graph)?;
    reader.instances(&mut graph, nodes)?;
    Ok(graph)
}

struct Reader<'b> {
    input: Input<'b>,
    /// How much memory may still be taken.
    left: usize,
}

impl Reader<'_> {
    fn spend(&mut self, bytes: usize) -> Result<(), DecodeError> {
        self.left = self.left.checked_sub(bytes).ok_or(DecodeError::TooLarge)?;
        Ok(())
    }

    /// Reads the names into the graph and returns how many there are: they are nodes 0, 1, 2 ….
    fn names(&mut self, graph: &mut RealizedGraph) -> Result<u32, DecodeError> {
        let count = self.input.count()?;
        let mut name = Vec::new();
        for place in 0..count {
            let order = self.input.text(&mut name, self.left)?;
            self.spend(NODE_BYTES + name.len())?;
            if place > 0 && order != Ordering::Greater {
                return Err(DecodeError::Malformed);
            }
            let name = std::str::from_utf8(&name).map_err(|_| DecodeError::Malformed)?;
            graph.append_node(name)?;
        }
        graph.index_nodes();
        u32::try_from(count).map_err(|_| DecodeError::TooLarge)
    }

    fn instances(&mut self, graph: &mut RealizedGraph, nodes: u32) -> Result<(), DecodeError> {
        let mut used = vec![false; nodes as usize];
        // The graph numbers lists in the order in which they come.
        let mut lists = 0;
        let mut list: Vec<NodeId> = Vec::new();
        let mut address = Vec::new();
        for node in (0..nodes).map(NodeId) {
            let count = self.input.count()?;
            used[node.index()] |= count > 0;
            address.clear();
            address.extend_from_slice(graph.name(node).as_bytes());
            let mut before: Option<Object<'_>> = None;
            for _ in 0..count {
                let order = self.input.text(&mut address, self.left)?;
                self.spend(INSTANCE_BYTES + 2 * address.len())?;
                let object = object(&mut self.input)?;
                if let Some(other) = before
                    && order.then(object.cmp(&other)) != Ordering::Greater
                {
                    return Err(DecodeError::Malformed);
                }
                before = Some(object);
                let address = std::str::from_utf8(&address).map_err(|_| DecodeError::Malformed)?;
                let row = RowRef { address, object };
                match self.list(lists, &mut used, &mut list)? {
                    List::Known(number) => {
                        let born = self.born(graph.seq())?;
                        graph.append_another(row, node, number, born)?;
                    }
                    List::New => {
                        let born = self.born(graph.seq())?;
                        lists = graph.append_first(row, node, &list, born)? + 1;
                    }
                }
            }
        }
        // No list is written out twice. That no row stands under two blocks is not looked for: it would be an instance of
        // both, and its address names one.
        let is_canonical = graph.index_lists() && !used.contains(&false);
        if is_canonical && self.input.rest.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::Malformed)
        }
    }

    fn born(&mut self, seq: Seq) -> Result<Seq, DecodeError> {
        let age = self.input.int()?;
        seq.0
            .checked_sub(age)
            .map(Seq)
            .ok_or(DecodeError::Malformed)
    }

    /// Reads a dependency list, of which `known` came before. The members of a new one are put into `list`.
    fn list(
        &mut self,
        known: u32,
        used: &mut [bool],
        list: &mut Vec<NodeId>,
    ) -> Result<List, DecodeError> {
        let back = u32::try_from(self.input.int()?).map_err(|_| DecodeError::Malformed)?;
        if back > 0 {
            let number = known.checked_sub(back).ok_or(DecodeError::Malformed)?;
            return Ok(List::Known(number));
        }
        let count = self.input.count()?;
        self.spend(LIST_BYTES + MEMBER_BYTES * count)?;
        list.clear();
        let mut next = 0_u64;
        for _ in 0..count {
            let place = next
                .checked_add(self.input.int()?)
                .ok_or(DecodeError::Malformed)?;
            let index = usize::try_from(place).map_err(|_| DecodeError::Malformed)?;
            *used.get_mut(index).ok_or(DecodeError::Malformed)? = true;
            let node = u32::try_from(place).map_err(|_| DecodeError::Malformed)?;
            list.push(NodeId(node));
            next = place + 1;
        }
        Ok(List::New)
    }
}

/// A dependency list as it stands in the bytes.
enum List {
    New,
    /// The number of one that came before.
    Known(u32),
}

/// Reads which object of its address an instance is.
fn object<'b>(input: &mut Input<'b>) -> Result<Object<'b>, DecodeError> {
    match input.byte()? {
        CURRENT => Ok(Object::Current),
        DEPOSED => Ok(Object::Deposed(input.str()?)),
        SHELL => Ok(Object::Shell),
        _ => Err(DecodeError::Malformed),
    }
}
