//! Compiled claims as text, the form in which scripts read them.

use std::fmt::Write as _;

use graph::claims::Nodes;

/// `HASH:MODE,HASH:MODE,…` with modes from 0 (IS) to 4 (X). Hashes are texts because Lua's numbers end at 2^53.
pub(crate) fn encode(nodes: &Nodes) -> String {
    let mut text = String::with_capacity(nodes.len() * 22);
    for node in nodes.iter() {
        let _ = write!(text, "{}:{},", node.hash, node.mode as u8);
    }
    text
}
