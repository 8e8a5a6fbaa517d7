//! Short ways to say what a configuration holds and what is asked.

use graph::scope::{
    Calls, ConfigNode, ConfigOutput, Configuration, ModuleCall, Move, Repetition, ScopeRequest,
    Target,
};

/// A configuration of blocks without `count` or `for_each`, in modules without them.
pub(crate) fn configuration(blocks: &[(&str, &[&str])]) -> Configuration {
    let node = |(address, dependencies): &(&str, &[&str])| ConfigNode {
        address: address.parse().unwrap(),
        dependencies: dependencies
            .iter()
            .map(|text| text.parse().unwrap())
            .collect(),
        repetition: Repetition::Single,
    };
    Configuration {
        nodes: blocks.iter().map(node).collect(),
        calls: Calls::Repeated(Vec::new()),
        ..Configuration::default()
    }
}

pub(crate) fn repeat(configuration: &mut Configuration, block: &str, repetition: Repetition) {
    let mut nodes = configuration.nodes.iter_mut();
    nodes
        .find(|node| node.address.as_str() == block)
        .unwrap()
        .repetition = repetition;
}

pub(crate) fn repeat_call(configuration: &mut Configuration, module: &str, repetition: Repetition) {
    let Calls::Repeated(calls) = &mut configuration.calls else {
        panic!("the calls of this configuration are not known");
    };
    let module = module.parse().unwrap();
    calls.retain(|call| call.module != module);
    calls.push(ModuleCall { module, repetition });
}

pub(crate) fn remove(configuration: &mut Configuration, block: &str) {
    configuration
        .nodes
        .retain(|node| node.address.as_str() != block);
}

pub(crate) fn output(configuration: &mut Configuration, name: &str, dependencies: &[&str]) {
    configuration.outputs.push(ConfigOutput {
        name: name.to_owned(),
        dependencies: dependencies
            .iter()
            .map(|text| text.parse().unwrap())
            .collect(),
    });
}

pub(crate) fn moved(configuration: &mut Configuration, from: &str, to: &str) {
    let (from, to) = (target(from), target(to));
    configuration.moves.push(Move { from, to });
}

pub(crate) fn target(text: &str) -> Target {
    text.parse().unwrap()
}

pub(crate) fn targets(texts: &[&str]) -> Vec<Target> {
    texts.iter().map(|text| target(text)).collect()
}

pub(crate) fn request(configuration: &Configuration, write: &[&str]) -> ScopeRequest {
    ScopeRequest {
        write: targets(write),
        configuration: Some(configuration.clone()),
        ..ScopeRequest::default()
    }
}
