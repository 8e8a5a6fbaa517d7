//! `kl graph`: what a resource of the configuration depends on, and what depends on it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use config_scope::{ConfigAddress, Configuration, Flavour, Target};
use serde::Serialize;

use super::{Context, work};
use crate::cli::{GraphArgs, GraphFormat};
use crate::failure::{Failure, Result};

#[derive(Serialize)]
struct View {
    address: String,
    depends_on: Vec<String>,
    needed_by: Vec<String>,
    edges: Vec<(String, String)>,
}

pub(super) async fn run(args: GraphArgs, context: &Context) -> Result<()> {
    let surroundings = &context.surroundings;
    let data_dir = surroundings.terraform_data_dir();
    let configuration = work::load(&surroundings.directory, data_dir, Flavour::OpenTofu)?;
    let asked = blocks(&configuration, &args.address)?;
    let view = view(&configuration, &args.address, &asked);
    context.printer.result(&view, || match args.format {
        GraphFormat::Text => text(&view),
        GraphFormat::Dot => dot(&view),
    })
}

/// The blocks that an address means: one resource, or all of a module.
fn blocks(configuration: &Configuration, address: &str) -> Result<BTreeSet<ConfigAddress>> {
    let target: Target = address
        .parse()
        .map_err(|error| Failure::usage(format!("`{address}` is not an address: {error}")))?;
    let found: BTreeSet<ConfigAddress> = match target.config_address() {
        Some(block) => configuration
            .find_node(&block)
            .map(|node| node.address.clone())
            .into_iter()
            .collect(),
        None => configuration
            .nodes()
            .filter(|node| target.config_module().contains(&node.address.module))
            .map(|node| node.address.clone())
            .collect(),
    };
    if !found.is_empty() {
        return Ok(found);
    }
    let failure = Failure::usage(format!("`{address}` is not in the configuration"));
    Err(match configuration.near(address).as_slice() {
        [] => failure.hint("run `kl state list` for what is in the state"),
        near => failure.hint(format!("near it are {}", near.join(", "))),
    })
}

fn view(configuration: &Configuration, address: &str, asked: &BTreeSet<ConfigAddress>) -> View {
    let below = configuration.closure(asked);
    let above = configuration.dependents(asked);
    let mut edges = Vec::new();
    for from in below.union(&above) {
        for to in configuration.dependencies(from) {
            if below.contains(&to) || above.contains(&to) {
                edges.push((from.to_string(), to.to_string()));
            }
        }
    }
    let others = |all: &BTreeSet<ConfigAddress>| {
        let others = all.difference(asked);
        others.map(ToString::to_string).collect()
    };
    View {
        address: address.to_owned(),
        depends_on: others(&below),
        needed_by: others(&above),
        edges,
    }
}

fn text(view: &View) -> String {
    let mut text = format!("{}\n", view.address);
    for (heading, addresses) in [
        ("depends on", &view.depends_on),
        ("needed by", &view.needed_by),
    ] {
        if addresses.is_empty() {
            // Writing to a String cannot fail.
            _ = writeln!(text, "  {heading} nothing");
            continue;
        }
        _ = writeln!(text, "  {heading}");
        for address in addresses {
            _ = writeln!(text, "    {address}");
        }
    }
    text
}

fn dot(view: &View) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut text = String::from("digraph {\n  rankdir = \"RL\";\n  node [shape = rect];\n");
    for (from, to) in &view.edges {
        // Writing to a String cannot fail.
        _ = writeln!(text, "  {} -> {};", quoted(from), quoted(to));
    }
    text.push_str("}\n");
    text
}
