//! What an upload changed against what its run last saw, and what becomes of each change. Pure.
//!
//! Inside the write claims a change is committed. Outside of them Terraform rewrites what it only read (refreshed attributes,
//! data sources, dependencies, members its version does not know): that is left out, and never refused. What it cannot do by
//! reading is a surprise: an object that appears, vanishes, becomes tainted, or is another one than before.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;

use graph::claims::{Access, ClaimSet, Path};
use serde_json::value::RawValue;
use tfstate::{Instance, Mode, Output, RowKind, State, instance_members};

/// What an upload comes to. Indexes point into its lists.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) instances: Vec<Written>,
    pub(crate) outputs: Vec<(String, Option<usize>)>,
    /// Managed objects outside the claims that changed.
    pub(crate) left_out: BTreeSet<String>,
    /// What reading cannot do.
    pub(crate) surprises: BTreeSet<String>,
}

/// A place inside the claims that changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) ord: Vec<u8>,
    pub(crate) path: Path,
    /// What stands there now.
    pub(crate) row: Option<usize>,
}

/// Compares in one walk over each list: both documents are in order.
pub(crate) fn difference(before: &State<'_>, after: &State<'_>, claims: &ClaimSet) -> Difference {
    let mut found = Difference::default();
    let instances = pairs(
        &before.instances,
        &after.instances,
        |a, b| a.ord.cmp(&b.ord),
        |a, b| a.digest == b.digest,
    );
    for (old, new) in instances {
        found.instance(before, after, (old, new), claims);
    }
    let outputs = pairs(
        &before.outputs,
        &after.outputs,
        |a, b| a.name.as_bytes().cmp(b.name.as_bytes()),
        |a: &Output<'_>, b: &Output<'_>| a.digest == b.digest,
    );
    for (old, new) in outputs {
        let name = match (old, new) {
            (_, Some(new)) => &after.outputs[new].name,
            (Some(old), None) => &before.outputs[old].name,
            (None, None) => continue,
        };
        if claims.grants(&Path::output(name), Access::Write) {
            found.outputs.push((name.clone(), new));
        }
    }
    found
}

impl Difference {
    fn instance(
        &mut self,
        before: &State<'_>,
        after: &State<'_>,
        (old, new): (Option<usize>, Option<usize>),
        claims: &ClaimSet,
    ) {
        let old = old.map(|index| &before.instances[index]);
        let posted = new.map(|index| &after.instances[index]);
        let (row, address, mode) = match (posted, old) {
            (Some(row), _) => (row, after.address(row), after.block(row).mode),
            (None, Some(row)) => (row, before.address(row), before.block(row).mode),
            (None, None) => return,
        };
        let path = Path::from(&address);
        if claims.grants(&path, Access::Write) {
            let stays = old
                .zip(posted)
                .is_some_and(|(old, new)| only_lost_unknown(old, new));
            if !stays {
                self.instances.push(Written {
                    ord: row.ord.to_vec(),
                    path,
                    row: new,
                });
            }
            return;
        }
        if mode == Mode::Data || row.kind == RowKind::Shell {
            return;
        }
        let same = old
            .zip(posted)
            .is_some_and(|(old, new)| is_same_object(old, new));
        let list = if same {
            &mut self.left_out
        } else {
            &mut self.surprises
        };
        list.insert(path.to_string());
    }
}

/// The places at which two ordered lists differ, as indexes into either.
fn pairs<T>(
    before: &[T],
    after: &[T],
    order: impl Fn(&T, &T) -> Ordering,
    same: impl Fn(&T, &T) -> bool,
) -> Vec<(Option<usize>, Option<usize>)> {
    let mut differing = Vec::new();
    let mut old = before.iter().enumerate().peekable();
    let mut new = after.iter().enumerate().peekable();
    let next = |list: &mut Peekable<_>| Iterator::next(list).map(|(index, _): (usize, &T)| index);
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return differing,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some((_, a)), Some((_, b))) => order(a, b),
        };
        match order {
            Ordering::Less => differing.push((next(&mut old), None)),
            Ordering::Greater => differing.push((None, next(&mut new))),
            Ordering::Equal => {
                let unchanged = old
                    .peek()
                    .zip(new.peek())
                    .is_some_and(|((_, a), (_, b))| same(a, b));
                let pair = (next(&mut old), next(&mut new));
                if !unchanged {
                    differing.push(pair);
                }
            }
        }
    }
}

/// Members of an instance that every Terraform knows that reads version 4: one that is gone was taken away.
const KNOWN: [&str; 10] = [
    "index_key",
    "status",
    "deposed",
    "schema_version",
    "attributes",
    "attributes_flat",
    "sensitive_attributes",
    "private",
    "dependencies",
    "create_before_destroy",
];

/// Whether an instance differs by nothing but members that an older client does not know, and so dropped.
fn only_lost_unknown(old: &Instance<'_>, new: &Instance<'_>) -> bool {
    let (Some(old), Some(new)) = (members(&old.body), members(&new.body)) else {
        return false;
    };
    let nothing_new = new.keys().all(|name| old.contains_key(name));
    let rest_stays = old.iter().all(|(name, value)| match new.get(name) {
        Some(now) => now.get() == value.get(),
        None => !KNOWN.contains(&name.as_str()),
    });
    nothing_new && rest_stays && new.len() < old.len()
}

fn members(body: &[u8]) -> Option<BTreeMap<String, Box<RawValue>>> {
    serde_json::from_slice(body).ok()
}

/// Whether what stands at a place is still the object that stood there: not tainted since, and with the same id.
fn is_same_object(old: &Instance<'_>, new: &Instance<'_>) -> bool {
    let (Some(old), Some(new)) = (instance_members(&old.body), instance_members(&new.body)) else {
        return false;
    };
    let became_tainted = new.is_tainted() && !old.is_tainted();
    !became_tainted && id(old.attributes) == id(new.attributes)
}

/// The attribute that nearly every object is known by to its provider.
fn id(attributes: Option<&[u8]>) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Id {
        id: Option<serde_json::Value>,
    }
    let attributes: Id = serde_json::from_slice(attributes?).ok()?;
    attributes.id.map(|id| id.to_string())
}
