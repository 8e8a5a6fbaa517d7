//! `moved` blocks: which address becomes which, for blocks and for instances.
//!
//! Whether a move is still pending only the state can tell.

mod follow;

use tfstate::{Key, ModuleStep};

use crate::{
    address::{ConfigAddress, ConfigModule},
    module::Location,
    target::Target,
};

pub(crate) use follow::{Named, follow};

/// One `moved` block in one module of the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Move {
    /// The module the block stands in; `from` and `to` are relative to it.
    pub module: ConfigModule,
    pub from: Target,
    pub to: Target,
    pub at: Location,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Forwards,
    Backwards,
}

impl Move {
    /// Where the object at `address` belongs after this move; `None` if the move does not concern
    /// it. `address` is absolute and names one instance.
    pub fn relocate(&self, address: &Target) -> Option<Target> {
        let depth = self.module.0.len();
        let (outside, inside) = address.module.split_at_checked(depth)?;
        let same = |(step, name): (&ModuleStep, &String)| step.name == *name;
        if !outside.iter().zip(&self.module.0).all(same) {
            return None;
        }
        let mut moved = match (&self.from.resource, &self.to.resource) {
            (None, None) => self.relocate_module(inside, address)?,
            (Some(_), Some(_)) if inside == self.from.module => self.relocate_resource(address)?,
            _ => return None,
        };
        moved.module.splice(0..0, outside.iter().cloned());
        Some(moved)
    }

    /// Both ends, seen from the root module. The path of the module that the block stands in has
    /// no keys: the move is meant for all its instances.
    pub fn ends(&self) -> [Target; 2] {
        [
            self.from.beneath(&self.module),
            self.to.beneath(&self.module),
        ]
    }

    pub(crate) fn concerns(&self, address: &ConfigAddress) -> bool {
        let directions = [Direction::Forwards, Direction::Backwards];
        directions
            .iter()
            .any(|direction| self.other_end(address, *direction).is_some())
    }

    pub(crate) fn concerns_module(&self, module: &ConfigModule) -> bool {
        let directions = [Direction::Forwards, Direction::Backwards];
        directions
            .iter()
            .any(|direction| self.other_end_of_module(module, *direction).is_some())
    }

    fn relocate_module(&self, inside: &[ModuleStep], address: &Target) -> Option<Target> {
        let (from_last, from_above) = self.from.module.split_last()?;
        let (to_last, to_above) = self.to.module.split_last()?;
        let (path, rest) = inside.split_at_checked(self.from.module.len())?;
        let (last, above) = path.split_last()?;
        if above != from_above || last.name != from_last.name {
            return None;
        }
        let key = moved_key(&from_last.key, &to_last.key, &last.key)?;
        let mut module = to_above.to_vec();
        module.push(ModuleStep {
            name: to_last.name.clone(),
            key,
        });
        module.extend(rest.iter().cloned());
        Some(Target {
            module,
            resource: address.resource.clone(),
        })
    }

    fn relocate_resource(&self, address: &Target) -> Option<Target> {
        let (from, to) = (self.from.resource.as_ref()?, self.to.resource.as_ref()?);
        let old = address.resource.as_ref()?;
        if (old.mode, &old.kind, &old.name) != (from.mode, &from.kind, &from.name) {
            return None;
        }
        let mut new = to.clone();
        new.key = moved_key(&from.key, &to.key, &old.key)?;
        Some(Target {
            module: self.to.module.clone(),
            resource: Some(new),
        })
    }

    /// What is at the other end of the move for `module` as a whole, without keys: a module of
    /// which it is a part, or the counterpart of something that stands in it.
    fn other_end_of_module(&self, module: &ConfigModule, direction: Direction) -> Option<Target> {
        let [from, to] = self.ends();
        let (here, there) = match direction {
            Direction::Forwards => (from, to),
            Direction::Backwards => (to, from),
        };
        let (inside, outside) = (here.config_module(), there.config_module());
        if let Some(address) = there.config_address() {
            return module.contains(&inside).then(|| Target::from(&address));
        }
        if module.contains(&inside) {
            return Some(Target::from(&outside));
        }
        let rest = module.0.strip_prefix(inside.0.as_slice())?;
        Some(Target::from(&ConfigModule(
            [outside.0.as_slice(), rest].concat(),
        )))
    }

    /// The address at the other end of the move, on the level of blocks.
    fn other_end(&self, address: &ConfigAddress, direction: Direction) -> Option<ConfigAddress> {
        let (here, there) = match direction {
            Direction::Forwards => (&self.from, &self.to),
            Direction::Backwards => (&self.to, &self.from),
        };
        let inside = address.module.0.strip_prefix(self.module.0.as_slice())?;
        let (path, rest) = inside.split_at_checked(here.module.len())?;
        if !path
            .iter()
            .zip(&here.module)
            .all(|(name, step)| *name == step.name)
        {
            return None;
        }
        let names = there.module.iter().map(|step| step.name.clone());
        let elsewhere = || ConfigModule(self.module.0.iter().cloned().chain(names).collect());
        match (&here.resource, &there.resource) {
            (None, None) if !here.module.is_empty() => {
                let mut module = elsewhere();
                module.0.extend(rest.iter().cloned());
                Some(ConfigAddress {
                    module,
                    ..address.clone()
                })
            }
            (Some(old), Some(new)) => {
                let same = (old.mode, &old.kind, &old.name)
                    == (address.mode, &address.kind, &address.name);
                (same && rest.is_empty()).then(|| ConfigAddress {
                    module: elsewhere(),
                    mode: new.mode,
                    kind: new.kind.clone(),
                    name: new.name.clone(),
                })
            }
            _ => None,
        }
    }
}

/// Where a key is given on either side, the move is about one instance, and no key is then the
/// instance without a key. Otherwise every instance moves and keeps its key.
fn moved_key(from: &Option<Key>, to: &Option<Key>, key: &Option<Key>) -> Option<Option<Key>> {
    match (from, to) {
        (None, None) => Some(key.clone()),
        _ if from == key => Some(to.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::SourcePath;

    pub(super) fn moved(module: &[&str], from: &str, to: &str) -> Move {
        Move {
            module: ConfigModule(module.iter().map(|name| (*name).to_owned()).collect()),
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            at: Location {
                file: SourcePath::new("m.tf"),
                line: 1,
            },
        }
    }

    #[test]
    fn an_instance_is_relocated_as_terraform_does() {
        for (module, from, to, address, expected) in [
            (&[][..], "t.a", "t.b", "t.a[3]", Some("t.b[3]")),
            (&[], "t.a", "t.b[0]", "t.a", Some("t.b[0]")),
            (&[], "t.a", "t.b[0]", "t.a[1]", None),
            (&[], "t.a[0]", "t.b[\"x\"]", "t.a[0]", Some("t.b[\"x\"]")),
            (
                &[],
                "module.a",
                "module.b",
                "module.a[\"k\"].t.x[0]",
                Some("module.b[\"k\"].t.x[0]"),
            ),
            (
                &[],
                "module.a",
                "module.b[1]",
                "module.a.module.c[0].t.x",
                Some("module.b[1].module.c[0].t.x"),
            ),
            (&[], "module.a", "module.b[1]", "module.a[0].t.x", None),
            (
                &[],
                "t.a",
                "module.n.t.a",
                "t.a[\"k\"]",
                Some("module.n.t.a[\"k\"]"),
            ),
            (
                &["m"],
                "t.a",
                "t.b",
                "module.m[\"q\"].t.a",
                Some("module.m[\"q\"].t.b"),
            ),
            (&["m"], "t.a", "t.b", "t.a", None),
            (&[], "t.a", "t.b", "module.m.t.a", None),
            (&[], "t.a", "t.b", "data.t.a", None),
        ] {
            let address: Target = address.parse().unwrap();
            let found = moved(module, from, to).relocate(&address);
            assert_eq!(
                found.map(|found| found.to_string()).as_deref(),
                expected,
                "{from} {address}"
            );
        }
    }
}
