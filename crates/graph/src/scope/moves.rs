//! Moves: `moved` blocks, and which of them the state still has before it.
//!
//! Terraform executes every pending move of the state it sees, and refuses a targeted run that does
//! not target both ends. A slice without one end hides the move instead: the run would create anew
//! what exists at the other end. So whatever touches a pending move gets both ends. Only destroying
//! does not: another target would be another thing destroyed, so that is refused instead.

use tfstate::{Address, Key, ModuleStep};

use crate::realized::Object;

use super::Target;
use super::target::TargetResource;
use super::union::Union;

/// One `moved` block, seen from the root module. A missing key in the path of the module that the
/// block stands in means all its instances.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Move {
    pub from: Target,
    pub to: Target,
}

impl Move {
    pub fn ends(&self) -> [&Target; 2] {
        [&self.from, &self.to]
    }

    /// Where the instance at `address` belongs after this move; `None` if it does not move.
    pub fn relocate(&self, address: &Address) -> Option<Address> {
        let mut moved = address.clone();
        match (&self.from, &self.to) {
            (Target::Module(from), Target::Module(to)) => {
                let (from_last, from_above) = from.split_last()?;
                let (to_last, to_above) = to.split_last()?;
                let (path, beneath) = address.module.split_at_checked(from.len())?;
                let (last, above) = path.split_last()?;
                let mut module = relocated_steps(from_above, to_above, above)?;
                if last.name != from_last.name {
                    return None;
                }
                let key = relocated_key(&from_last.key, &to_last.key, &last.key)?;
                module.push(ModuleStep {
                    name: to_last.name.clone(),
                    key,
                });
                module.extend_from_slice(beneath);
                moved.module = module;
            }
            (Target::Resource(from), Target::Resource(to)) => {
                if !is_of(address, from) || address.module.len() != from.module.len() {
                    return None;
                }
                moved.module = relocated_steps(&from.module, &to.module, &address.module)?;
                moved.mode = to.mode.in_state()?;
                moved.kind.clone_from(&to.kind);
                moved.name.clone_from(&to.name);
                moved.key = relocated_key(&from.key, &to.key, &address.key)?;
            }
            _ => return None,
        }
        (moved != *address).then_some(moved)
    }

    /// Whether either end has a block in common with `target`.
    pub(super) fn meets(&self, target: &Target) -> bool {
        self.from.meets(target) || self.to.meets(target)
    }
}

fn is_of(address: &Address, resource: &TargetResource) -> bool {
    Some(address.mode) == resource.mode.in_state()
        && address.kind == resource.kind
        && address.name == resource.name
}

/// The steps above what moves. A step without a key that both ends have is part of the path of the
/// module that the block stands in, and keeps its key.
fn relocated_steps(
    from: &[ModuleStep],
    to: &[ModuleStep],
    steps: &[ModuleStep],
) -> Option<Vec<ModuleStep>> {
    let mut relocated = to.to_vec();
    for (place, (wanted, step)) in from.iter().zip(steps).enumerate() {
        let target = to.get(place).filter(|target| target.name == wanted.name);
        let gets_key = target.is_some_and(|target| target.key.is_some());
        let fits = match &wanted.key {
            None if gets_key => step.key.is_none(),
            None => true,
            Some(_) => wanted.key == step.key,
        };
        if wanted.name != step.name || !fits {
            return None;
        }
        if wanted.key.is_none() && target.is_some_and(|target| target.key.is_none()) {
            relocated[place].key.clone_from(&step.key);
        }
    }
    Some(relocated)
}

/// The key at the end of what moves; `None` if another key is meant.
fn relocated_key(from: &Option<Key>, to: &Option<Key>, key: &Option<Key>) -> Option<Option<Key>> {
    match (from, to) {
        // The whole block moves, and its instances keep their keys.
        (None, None) => Some(key.clone()),
        _ if from == key => Some(to.clone()),
        _ => None,
    }
}

/// The moves of a configuration that the state still has before it.
pub(super) fn pending<'a>(union: &Union<'a>) -> Vec<&'a Move> {
    let moves = union
        .configuration
        .map_or(&[][..], |configuration| &configuration.moves);
    let moves_something = |one: &Move| {
        let destinations = sources(union, one).into_iter();
        let mut destinations = destinations.filter_map(|address| one.relocate(&address));
        destinations.any(|destination| is_free(union, moves, &destination))
    };
    let mut pending: Vec<bool> = moves.iter().map(moves_something).collect();
    // A move onto the source of another one makes that one pending, too.
    loop {
        let follows = |place: &usize| {
            let mut others = moves.iter().zip(&pending);
            !pending[*place] && others.any(|(other, is)| *is && other.to.meets(&moves[*place].from))
        };
        let Some(next) = (0..moves.len()).find(follows) else {
            break;
        };
        pending[next] = true;
    }
    moves
        .iter()
        .zip(pending)
        .filter(|(_, is)| *is)
        .map(|(one, _)| one)
        .collect()
}

/// The objects that may move: those of the blocks that the source of the move means.
fn sources(union: &Union<'_>, one: &Move) -> Vec<Address> {
    let nodes = union.nodes_of(&one.from).into_iter();
    let instances = nodes.flat_map(|node| union.graph.instances_at(node));
    instances
        .filter(|instance| instance.row.object != Object::Shell)
        .filter_map(|instance| instance.row.address.parse().ok())
        .collect()
}

/// Whether an object can move to `destination`: nothing is there, or what is there may move away.
/// Terraform leaves an object where it is when its destination is taken.
fn is_free(union: &Union<'_>, moves: &[Move], destination: &Address) -> bool {
    !union.graph.has_object(destination)
        || moves
            .iter()
            .any(|other| other.relocate(destination).is_some())
}
