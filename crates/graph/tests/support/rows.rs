//! Rows that own their texts, and states made of them.

use std::collections::BTreeMap;

use graph::{InstanceRow, Object, RealizedGraph, RowRef, Seq};

/// Which object of its address a row holds.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Which {
    Current,
    Deposed(String),
    Shell,
}

/// Address and object.
pub(crate) type Name = (String, Which);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) config_address: String,
    pub(crate) dependencies: Vec<String>,
    pub(crate) born: u64,
}

/// The live rows of one version.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct State {
    pub(crate) seq: u64,
    pub(crate) rows: BTreeMap<Name, Row>,
}

impl State {
    pub(crate) fn graph(&self) -> RealizedGraph {
        let rows = self.rows.iter().map(|(name, row)| borrowed(name, row));
        RealizedGraph::build(Seq(self.seq), rows).unwrap()
    }

    /// Adds a current object; the block is that of the address.
    pub(crate) fn add(&mut self, address: &str, dependencies: &[&str]) {
        self.add_object(address, Which::Current, dependencies);
    }

    pub(crate) fn add_object(&mut self, address: &str, object: Which, dependencies: &[&str]) {
        let parsed: tfstate::Address = address.parse().unwrap();
        let row = Row {
            config_address: parsed.config_address(),
            dependencies: dependencies.iter().map(ToString::to_string).collect(),
            born: self.seq,
        };
        let before = self.rows.insert((parsed.to_string(), object), row);
        assert_eq!(before, None, "{address} twice");
    }
}

pub(crate) fn row_ref(name: &Name) -> RowRef<'_> {
    let object = match &name.1 {
        Which::Current => Object::Current,
        Which::Deposed(key) => Object::Deposed(key),
        Which::Shell => Object::Shell,
    };
    RowRef {
        address: &name.0,
        object,
    }
}

pub(crate) fn borrowed<'r>(name: &'r Name, row: &'r Row) -> InstanceRow<'r> {
    InstanceRow {
        row: row_ref(name),
        config_address: &row.config_address,
        dependencies: &row.dependencies,
        born: Seq(row.born),
    }
}
