//! Writing graphs.

use super::bytes::{put_bytes, put_int, put_text};
use super::{CURRENT, DEPOSED, FORMAT, SHELL};
use crate::RealizedGraph;
use crate::realized::{NodeId, Object};

/// No number given yet.
const NONE: u32 = u32::MAX;

pub(super) fn encode(graph: &RealizedGraph, state: [u8; 16]) -> Vec<u8> {
    let mut out = vec![FORMAT];
    out.extend_from_slice(&state);
    put_int(&mut out, graph.seq().0);
    let names = used_names(graph);
    put_int(&mut out, names.len() as u64);
    let mut before = "";
    let mut order = vec![NONE; graph.node_count()];
    for (place, (name, node)) in (0_u32..).zip(&names) {
        put_text(&mut out, before, name);
        before = name;
        order[node.index()] = place;
    }
    let mut lists = ListNumbers {
        numbers: vec![NONE; graph.list_slots()],
        given: 0,
    };
    let mut rows = Vec::new();
    for (name, node) in names {
        rows.extend(graph.rows_at(node));
        rows.sort_unstable_by_key(|(instance, _)| instance.row);
        put_int(&mut out, rows.len() as u64);
        let mut before = name;
        for (instance, list) in rows.drain(..) {
            put_text(&mut out, before, instance.row.address);
            before = instance.row.address;
            match instance.row.object {
                Object::Current => out.push(CURRENT),
                Object::Deposed(key) => {
                    out.push(DEPOSED);
                    put_bytes(&mut out, key.as_bytes());
                }
                Object::Shell => out.push(SHELL),
            }
            lists.put(&mut out, list, graph.list(list), &order);
            put_int(&mut out, graph.seq().0 - instance.born.0);
        }
    }
    let sum = crc32fast::hash(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// The nodes that have instances or are depended on, by name.
fn used_names(graph: &RealizedGraph) -> Vec<(&str, NodeId)> {
    let mut used = vec![false; graph.node_count()];
    let mut seen = vec![false; graph.list_slots()];
    for (node, list) in graph.uses() {
        used[node.index()] = true;
        if !std::mem::replace(&mut seen[list as usize], true) {
            for member in graph.list(list) {
                used[member.index()] = true;
            }
        }
    }
    let nodes = (0_u32..).zip(used).filter(|(_, used)| *used);
    let mut names: Vec<(&str, NodeId)> = nodes
        .map(|(node, _)| (graph.name(NodeId(node)), NodeId(node)))
        .collect();
    names.sort_unstable();
    names
}

/// Lists are numbered as they come, and each is written out where it comes first.
struct ListNumbers {
    numbers: Vec<u32>,
    given: u32,
}

impl ListNumbers {
    fn put(&mut self, out: &mut Vec<u8>, list: u32, members: &[NodeId], order: &[u32]) {
        let number = &mut self.numbers[list as usize];
        if *number != NONE {
            put_int(out, u64::from(self.given - *number));
            return;
        }
        *number = self.given;
        self.given += 1;
        put_int(out, 0);
        put_int(out, members.len() as u64);
        let mut places: Vec<u32> = members.iter().map(|member| order[member.index()]).collect();
        places.sort_unstable();
        let mut next = 0;
        for place in places {
            put_int(out, u64::from(place - next));
            next = place + 1;
        }
    }
}
