//! Graphs as bytes, for a cache that may lose, mix up or damage them.
//!
//! The encoding is canonical: one graph, one text, however it came about, and what does not decode to
//! a graph that encodes to the same bytes is refused. It begins with a format number and the state it
//! belongs to and ends with a checksum. Neither is proof against someone who writes to the cache on
//! purpose; a cache others can write to needs its entries authenticated around this.
//!
//! ```text
//! graph    = format:u8 state:[u8;16] seq:int count:int name* instances* crc32:[u8;4]
//! name     = text                      ascending, front-coded against the name before
//! instances= count:int instance*       of the nodes in the order of names
//! instance = text object list age:int  ascending, front-coded against the one before, the first one
//!                                      against the name; age = seq - born
//! text     = shared:int length:int byte*
//! object   = 0 | 1 length:int byte* | 2        current, deposed, shell
//! list     = 0 count:int gap:int*      a new one: first index, then distance - 1 to the next
//!          | back:int                  one that came before: 1 is the newest
//! int      = LEB128, shortest form
//! ```

mod bytes;
mod read;
mod write;

pub use read::DecodeError;

use crate::RealizedGraph;

/// The format this code writes, and the only one it reads: a cache entry of another is a miss.
const FORMAT: u8 = 1;

const CURRENT: u8 = 0;
const DEPOSED: u8 = 1;
const SHELL: u8 = 2;

impl RealizedGraph {
    /// Writes the graph. `state` names the state it belongs to.
    pub fn encode(&self, state: [u8; 16]) -> Vec<u8> {
        write::encode(self, state)
    }

    /// Reads what [`RealizedGraph::encode`] wrote for the same state. A graph that would take more
    /// than `max_bytes` of memory is refused before it does.
    pub fn decode(bytes: &[u8], state: [u8; 16], max_bytes: usize) -> Result<Self, DecodeError> {
        read::decode(bytes, state, max_bytes)
    }
}
