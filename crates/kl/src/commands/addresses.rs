//! Addresses in the order and with the filters of `terraform state list`.

use std::cmp::Ordering;
use std::str::FromStr as _;

use protocol::states::ResourceSummary;
use tfstate::{Address, Key, Mode, ModulePath, ModuleStep};

use crate::failure::{Failure, Result};

/// An entry with its address taken apart, where it could be.
pub(super) struct Listed {
    address: Option<Address>,
    pub(super) summary: ResourceSummary,
}

impl Listed {
    pub(super) fn new(summary: ResourceSummary) -> Self {
        Self {
            address: Address::from_str(&summary.address).ok(),
            summary,
        }
    }

    /// The order of `terraform state list`, which is not that of the document: shallow modules
    /// first, number keys by value.
    pub(super) fn order(a: &Self, b: &Self) -> Ordering {
        match (&a.address, &b.address) {
            (Some(a), Some(b)) => order(a, b),
            _ => a.summary.address.cmp(&b.summary.address),
        }
    }
}

fn order(a: &Address, b: &Address) -> Ordering {
    let data_first = |address: &Address| address.mode != Mode::Data;
    modules(&a.module, &b.module)
        .then_with(|| data_first(a).cmp(&data_first(b)))
        .then_with(|| a.kind.cmp(&b.kind))
        .then_with(|| a.name.cmp(&b.name))
        .then_with(|| keys(a.key.as_ref(), b.key.as_ref()))
}

fn modules(a: &[ModuleStep], b: &[ModuleStep]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| {
        a.iter()
            .zip(b)
            .map(|(a, b)| {
                a.name
                    .cmp(&b.name)
                    .then_with(|| keys(a.key.as_ref(), b.key.as_ref()))
            })
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    })
}

/// No key, then numbers by value, then texts by their bytes: the derived order of `Key` and `None`.
fn keys(a: Option<&Key>, b: Option<&Key>) -> Ordering {
    a.cmp(&b)
}

/// An address given to list only what lies below it.
pub(super) struct Filter {
    text: String,
    what: Covers,
}

enum Covers {
    Module(ModulePath),
    Resource(Address),
}

impl Filter {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let what = match (ModulePath::from_str(text), Address::from_str(text)) {
            (Ok(module), _) => Covers::Module(module),
            (_, Ok(address)) => Covers::Resource(address),
            (_, Err(error)) => {
                return Err(Failure::usage(format!("`{text}` is no address: {error}")));
            }
        };
        Ok(Self {
            text: text.to_owned(),
            what,
        })
    }

    /// The filter as it was given.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn covers(&self, entry: &Listed) -> bool {
        let Some(address) = &entry.address else {
            return false;
        };
        match &self.what {
            Covers::Module(ModulePath(steps)) => covers_module(steps, &address.module),
            Covers::Resource(wanted) => {
                wanted.module.len() == address.module.len()
                    && covers_module(&wanted.module, &address.module)
                    && wanted.mode == address.mode
                    && wanted.kind == address.kind
                    && wanted.name == address.name
                    && (wanted.key.is_none() || wanted.key == address.key)
            }
        }
    }
}

/// A module without a key stands for all its instances.
fn covers_module(wanted: &[ModuleStep], found: &[ModuleStep]) -> bool {
    wanted.len() <= found.len()
        && wanted.iter().zip(found).all(|(wanted, found)| {
            wanted.name == found.name && (wanted.key.is_none() || wanted.key == found.key)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(texts: &[&str]) -> Vec<String> {
        let mut addresses: Vec<Address> = texts.iter().map(|text| text.parse().unwrap()).collect();
        addresses.sort_by(order);
        addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn addresses_come_in_the_order_of_terraform_state_list() {
        let expected = [
            "data.http.z",
            "aws_vpc.a",
            "aws_vpc.b[2]",
            "aws_vpc.b[10]",
            "aws_vpc.b[\"\"]",
            "aws_vpc.b[\"10\"]",
            "module.z.aws_vpc.a",
            "module.a.module.b.aws_vpc.a",
            "module.a[2].module.b.aws_vpc.a",
            "module.a[10].module.b.aws_vpc.a",
        ];
        let mut shuffled = expected;
        shuffled.reverse();
        assert_eq!(sorted(&shuffled), expected);
    }

    #[test]
    fn a_filter_covers_what_lies_below_it() {
        let covers = |filter: &str, address: &str| {
            let entry = Listed {
                address: address.parse().ok(),
                summary: serde_json::from_value(serde_json::json!({
                    "address": address, "mode": "managed", "type": "t", "name": "n",
                    "provider": "p", "since_seq": 1,
                }))
                .unwrap(),
            };
            Filter::parse(filter).unwrap().covers(&entry)
        };
        assert!(covers("module.a", "module.a[\"x\"].module.b.t.n"));
        assert!(covers("module.a[\"x\"]", "module.a[\"x\"].t.n"));
        assert!(!covers("module.a[\"x\"]", "module.a[\"y\"].t.n"));
        assert!(!covers("module.a", "module.ab.t.n"));
        assert!(covers("t.n", "t.n[0]"));
        assert!(!covers("t.n", "module.a.t.n"));
        assert!(!covers("t.n[0]", "t.n[1]"));
        assert!(!covers("t.n", "data.t.n"));
    }
}
