//! The claims of one reservation, without repetition and within the limits of the ledger.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::coarsen::coarsen;
use super::{Access, Claim, Nodes, Path};

/// All claims of one reservation.
///
/// Claims that another one of the set grants are left out; paths are such as may be claimed
/// ([`Path::as_claimed`], at most [`super::MAX_PATH_BYTES`]); and the set compiles to at most
/// [`super::MAX_NODES`] nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClaimSet {
    claims: BTreeMap<Path, Access>,
    coarsened: Vec<Path>,
}

/// Two claims of different reservations that exclude each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overlap<'a> {
    pub held: (&'a Path, Access),
    pub asked: (&'a Path, Access),
}

impl ClaimSet {
    /// Brings claims into the form that is reserved. The result grants at least what was asked for.
    pub fn new(claims: impl IntoIterator<Item = Claim>) -> Self {
        let mut coarsened = Vec::new();
        let mut wanted: BTreeMap<Path, Access> = BTreeMap::new();
        for claim in claims {
            let allowed = claim.path.as_claimed();
            let path = allowed.fitting();
            if path != allowed {
                coarsened.push(path.clone());
            }
            let access = wanted.entry(path).or_insert(claim.access);
            *access = claim.access.max(*access);
        }
        let (claims, covering) = coarsen(without_granted(wanted));
        coarsened.extend(covering);
        coarsened.sort();
        coarsened.dedup();
        coarsened.retain(|path| claims.contains_key(path));
        Self { claims, coarsened }
    }

    /// What a whole-state lock holds.
    pub fn whole_state() -> Self {
        Self::new([Claim::write(Path::root())])
    }

    /// The claims, each before all that its path covers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Path, Access)> {
        self.claims.iter().map(|(path, access)| (path, *access))
    }

    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// The claims that are wider than what was asked for because of the limits on number and length.
    pub fn coarsened(&self) -> &[Path] {
        &self.coarsened
    }

    /// What the ledger and its index store.
    pub fn nodes(&self) -> Nodes {
        Nodes::compile(self.iter())
    }

    /// Whether the holder of these claims may access everything beneath `path`.
    pub fn grants(&self, path: &Path, access: Access) -> bool {
        grants(&self.claims, path, access)
    }

    /// The first pair of claims that keeps a reservation of `asked` from living beside this one.
    ///
    /// This is what a conflict means; [`Nodes::conflict`] finds out whether there is one from the
    /// compiled nodes alone.
    pub fn first_overlap<'a>(&'a self, asked: &'a Self) -> Option<Overlap<'a>> {
        asked.iter().find_map(|asked| {
            let held = self.first_conflicting(asked.0, asked.1)?;
            Some(Overlap { held, asked })
        })
    }

    fn first_conflicting(&self, path: &Path, access: Access) -> Option<(&Path, Access)> {
        let above = (0..path.segments().len())
            .filter_map(|len| self.claims.get_key_value(&path.segments()[..len]));
        let here_and_beneath = self
            .claims
            .range::<Path, _>((Bound::Included(path), Bound::Unbounded))
            .take_while(|(held, _)| path.covers(held));
        above
            .chain(here_and_beneath)
            .map(|(held, access)| (held, *access))
            .find(|(_, held)| held.conflicts_with(access))
    }
}

/// Drops claims that an earlier, covering claim grants already.
fn without_granted(wanted: BTreeMap<Path, Access>) -> BTreeMap<Path, Access> {
    let mut kept = BTreeMap::new();
    for (path, access) in wanted {
        if !grants(&kept, &path, access) {
            kept.insert(path, access);
        }
    }
    kept
}

fn grants(claims: &BTreeMap<Path, Access>, path: &Path, access: Access) -> bool {
    (0..=path.segments().len())
        .filter_map(|len| claims.get(&path.segments()[..len]))
        .any(|held| *held >= access)
}
