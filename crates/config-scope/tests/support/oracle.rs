//! What Terraform itself says about a configuration.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::{Command, Output},
};

use super::shared::entries;

pub(crate) type Edges = BTreeMap<String, BTreeSet<String>>;

/// The nodes and edges of a DOT document, names without their quotes.
pub(crate) fn parse_dot(text: &str) -> Edges {
    let mut edges = Edges::new();
    for line in text.lines() {
        let Some(rest) = line.trim().strip_prefix('"') else {
            continue;
        };
        // Node names hold escaped quotes (`provider[\"…\"]`), so the end is looked for with them.
        let Some((from, rest)) = split_name(rest) else {
            continue;
        };
        let targets = edges.entry(from).or_default();
        if let Some(to) = rest.trim().strip_prefix("-> \"").and_then(split_name) {
            targets.insert(to.0.clone());
            edges.entry(to.0).or_default();
        }
    }
    edges
}

fn split_name(text: &str) -> Option<(String, &str)> {
    let mut end = 0;
    let bytes = text.as_bytes();
    while *bytes.get(end)? != b'"' {
        end += if bytes[end] == b'\\' { 2 } else { 1 };
    }
    Some((text[..end].replace("\\\"", "\""), &text[end + 1..]))
}

/// Everything reachable from each node.
pub(crate) fn close(edges: &Edges) -> Edges {
    let reach = |from: &String| {
        let mut found = BTreeSet::new();
        let mut todo: Vec<&String> = edges[from].iter().collect();
        while let Some(node) = todo.pop() {
            if found.insert(node.clone()) {
                todo.extend(edges.get(node).into_iter().flatten());
            }
        }
        found
    };
    edges
        .keys()
        .map(|from| (from.clone(), reach(from)))
        .collect()
}

/// Runs Terraform in `directory`, sealed off from the machine's own settings and the network.
pub(crate) fn terraform(directory: &Path, arguments: &[&str]) -> Output {
    Command::new("terraform")
        .args(arguments)
        .current_dir(directory)
        .env_remove("TF_CLI_CONFIG_FILE")
        .env_remove("TF_DATA_DIR")
        .env_remove("TF_CLI_ARGS")
        .env("CHECKPOINT_DISABLE", "1")
        .env("TF_IN_AUTOMATION", "1")
        .output()
        .expect("terraform is on the PATH")
}

/// The closed graph of resources, and the resources behind each root output if asked for.
pub(crate) struct Answer {
    pub(crate) resources: Edges,
    pub(crate) outputs: Option<Edges>,
}

/// What to ask Terraform for: each graph is a process of its own.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Question {
    Resources,
    ResourcesAndOutputs,
}

/// Asks for Terraform's graphs of the configuration in `directory`.
pub(crate) fn ask(directory: &Path, question: Question) -> Result<Answer, String> {
    let run = |arguments: &[&str]| {
        let output = terraform(directory, arguments);
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(format!(
                "terraform {}: {}{}",
                arguments.join(" "),
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            ))
        }
    };
    // Only modules need it: the provider is part of Terraform, and no backend is used.
    let calls_modules = entries(directory)
        .iter()
        .any(|path| fs::read_to_string(path).is_ok_and(|text| text.contains("module")));
    if calls_modules {
        run(&["init", "-no-color", "-input=false", "-backend=false"])?;
    }
    let resources = close(&parse_dot(&run(&["graph", "-no-color"])?));
    if question == Question::Resources {
        return Ok(Answer {
            resources,
            outputs: None,
        });
    }
    let plan = close(&parse_dot(&run(&["graph", "-no-color", "-type=plan"])?));
    let address = |node: &str| {
        let name = node.strip_prefix("[root] ")?.strip_suffix(" (expand)")?;
        resources.contains_key(name).then(|| name.to_owned())
    };
    let outputs = plan.iter().filter_map(|(node, reached)| {
        let name = node
            .strip_prefix("[root] output.")?
            .strip_suffix(" (expand)")?;
        Some((
            name.to_owned(),
            reached.iter().filter_map(|node| address(node)).collect(),
        ))
    });
    let outputs = Some(outputs.collect());
    Ok(Answer { resources, outputs })
}
