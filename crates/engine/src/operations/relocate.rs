//! Moving: objects stand elsewhere, by Terraform's own rules for what moves. Taint, deposed objects and private data come
//! along; the provider stays the one that the objects were made with.

use std::collections::{BTreeMap, BTreeSet};

use graph::scope::{Move, Target, addresses_of};
use graph::{ConfigAddress, Object};
use store::SliceRow;
use tfstate::{Address, RowKind, block_at, body_with_key};

use super::rewrite::Renames;
use super::work::{Piece, Place, Verb, Work, cannot};
use crate::EngineError;

/// Works out moves, one after the other.
pub(super) async fn relocate(
    place: &mut Place<'_>,
    moves: &[(Target, Target)],
) -> Result<Work, EngineError> {
    let moved = destinations(place, moves)?;
    if moved.is_empty() {
        return Ok(Work::nothing());
    }
    let sources: Vec<String> = moved.keys().cloned().collect();
    let subject = place.rows(&sources).await?;
    let mut work = Work::nothing();
    work.verb = Verb::Move;
    for row in free_destinations(place, &moved).await? {
        // The shell of a resource gives way to its first instance.
        work.before.push(row);
    }
    let renames = renames(place, &moved);
    for row in &subject {
        let Some(to) = moved.get(&row.address) else {
            continue;
        };
        if let Some(mut piece) = piece_at(row, to)? {
            renames.follow(&mut piece)?;
            work.after.push(piece);
        }
    }
    for (row, piece) in followers(place, &moved, &renames).await? {
        work.before.push(row);
        work.after.push(piece);
    }
    work.before.extend(subject.iter().cloned());
    work.subject = subject;
    work.look_around(place.graph);
    Ok(work)
}

/// Where each address that moves ends up, by where it stands now.
fn destinations(
    place: &Place<'_>,
    moves: &[(Target, Target)],
) -> Result<BTreeMap<String, Address>, EngineError> {
    let graph = place.graph.realized();
    let mut moved: BTreeMap<String, Address> = BTreeMap::new();
    for (from, to) in moves {
        fits(from, to)?;
        let one = Move {
            from: from.clone(),
            to: to.clone(),
        };
        let untouched = addresses_of(graph, from).into_iter();
        let untouched: Vec<String> = untouched
            .filter(|address| !moved.contains_key(address))
            .collect();
        let mut found = 0;
        for at in moved.values_mut() {
            if let Some(further) = one.relocate(at) {
                *at = further;
                found += 1;
            }
        }
        let named = untouched.len();
        for address in untouched {
            let Ok(at) = address.parse::<Address>() else {
                continue;
            };
            if let Some(further) = one.relocate(&at) {
                moved.insert(address, further);
                found += 1;
            }
        }
        if found == 0 && named > 0 && from != to {
            return Err(EngineError::BadRequest(format!(
                "`{from}` has instances with keys that `{to}` does not say where to put: move them one by one"
            )));
        }
    }
    moved.retain(|from, to| *from != to.to_string());
    Ok(moved)
}

/// Fails for a move that Terraform does not know.
fn fits(from: &Target, to: &Target) -> Result<(), EngineError> {
    let fits = match (from, to) {
        (Target::Module(_), Target::Module(_)) => true,
        (Target::Resource(from), Target::Resource(to)) => {
            from.mode == to.mode && from.kind == to.kind
        }
        _ => false,
    };
    if fits {
        Ok(())
    } else {
        Err(EngineError::BadRequest(format!(
            "`{from}` cannot become `{to}`: a module becomes a module, and a resource one of the same type"
        )))
    }
}

/// Fails when something stands at a destination; answers the shells there.
async fn free_destinations(
    place: &mut Place<'_>,
    moved: &BTreeMap<String, Address>,
) -> Result<Vec<SliceRow>, EngineError> {
    let mut wanted = BTreeSet::new();
    for to in moved.values() {
        if !wanted.insert(to.to_string()) {
            return Err(EngineError::AddressTaken(to.to_string()));
        }
    }
    let wanted: Vec<String> = wanted.into_iter().collect();
    let mut there = place.rows(&wanted).await?;
    there.retain(|row| !moved.contains_key(&row.address));
    match there.iter().find(|row| row.kind != "shell") {
        Some(row) => Err(EngineError::AddressTaken(row.address.clone())),
        None => Ok(there),
    }
}

/// A row as it is written at another address; `None` for a shell that has no place there.
fn piece_at(row: &SliceRow, to: &Address) -> Result<Option<Piece>, EngineError> {
    let mut piece = Piece::of(row).ok_or_else(|| cannot("a recorded address cannot be read"))?;
    if piece.kind == RowKind::Shell && to.key.is_some() {
        return Ok(None);
    }
    let rewritten = || cannot("a row cannot be rewritten");
    piece.block = block_at(&piece.block, to).ok_or_else(rewritten)?;
    if piece.kind != RowKind::Shell && piece.address.key != to.key {
        piece.body = body_with_key(&piece.body, to.key.as_ref()).ok_or_else(rewritten)?;
    }
    piece.address = to.clone();
    Ok(Some(piece))
}

/// What becomes of the names of blocks.
fn renames(place: &Place<'_>, moved: &BTreeMap<String, Address>) -> Renames {
    let mut renames = Renames::default();
    let parse = |text: &String| text.parse::<Address>().ok();
    for (from, to) in moved {
        let Some(from) = parse(from) else { continue };
        let (old, new) = (from.config_address(), to.config_address());
        if old == new {
            continue;
        }
        let stays = old.parse::<ConfigAddress>().is_ok_and(|block| {
            let mut instances = place.graph.realized().instances_of(&block);
            instances
                .any(|one| one.row.object != Object::Shell && !moved.contains_key(one.row.address))
        });
        renames.add(old, new, stays);
    }
    renames
}

/// The rows elsewhere whose lists name what moved, and what becomes of them.
async fn followers(
    place: &mut Place<'_>,
    moved: &BTreeMap<String, Address>,
    renames: &Renames,
) -> Result<Vec<(SliceRow, Piece)>, EngineError> {
    let graph = place.graph.realized();
    let blocks: Vec<ConfigAddress> = renames
        .sources()
        .filter_map(|block| block.parse().ok())
        .collect();
    let dependents: BTreeSet<&str> = blocks
        .iter()
        .flat_map(|block| graph.dependents_of(block))
        .collect();
    let addresses: BTreeSet<String> = dependents
        .into_iter()
        .filter_map(|block| block.parse::<ConfigAddress>().ok())
        .flat_map(|block| {
            let instances = graph.instances_of(&block);
            let addresses = instances.map(|one| one.row.address.to_owned());
            addresses.collect::<Vec<_>>()
        })
        .filter(|address| !moved.contains_key(address))
        .collect();
    let addresses: Vec<String> = addresses.into_iter().collect();
    let mut found = Vec::new();
    for row in place.rows(&addresses).await? {
        if let Some(mut piece) = Piece::of(&row)
            && renames.follow(&mut piece)?
        {
            found.push((row, piece));
        }
    }
    Ok(found)
}
