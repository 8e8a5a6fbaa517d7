//! A scope as it comes over the wire, brought into the words of the graph. Whatever cannot be read is refused by the name
//! of its field: a target that was left out would be a smaller scope than the one that was asked for.

use std::collections::BTreeSet;
use std::str::FromStr;

use graph::ConfigAddress;
use graph::scope::{
    Calls, ConfigNode, ConfigOutput, Configuration, ModuleCall, Move, Operation, Repetition,
    ScopeRequest, Target,
};
use protocol::scope as wire;
use store::RecordedSource;

use crate::EngineError;
use crate::graphs::StateGraph;

/// The longest address or file name, in bytes: what is recorded stands in an index, whose entries end at about 2,700.
const MAX_TEXT_BYTES: usize = 2_000;

/// What the engine works with of a request.
pub(super) struct Asked {
    pub(super) request: ScopeRequest,
    /// As [`wire::ScopeRequest::files`].
    pub(super) files: Vec<String>,
    /// What the configuration declares, as far as the request says so.
    declared: BTreeSet<ConfigAddress>,
}

impl Asked {
    pub(super) fn read(asked: &wire::ScopeRequest) -> Result<Self, EngineError> {
        let configuration = asked
            .configuration
            .as_ref()
            .map(configuration)
            .transpose()?;
        let mut declared: BTreeSet<ConfigAddress> = all("declared", &asked.declared, block)?
            .into_iter()
            .collect();
        let nodes = configuration.iter().flat_map(|known| &known.nodes);
        declared.extend(nodes.map(|node| node.address.clone()));
        all("files", &asked.files, file)?;
        read_sources(asked)?;
        Ok(Self {
            request: ScopeRequest {
                operation: match asked.operation {
                    wire::ScopeOperation::Apply => Operation::Apply,
                    wire::ScopeOperation::Destroy => Operation::Destroy,
                },
                write: all("write", &asked.write, target)?,
                read: all("read", &asked.read, target)?,
                removed: all("removed", &asked.removed, target)?,
                undeployed: all("undeployed", &asked.undeployed, target)?,
                configuration,
            },
            files: asked.files.clone(),
            declared,
        })
    }

    /// Adds what was last written from a selected file, still is in the state, and is not declared any more.
    pub(super) fn remove_what_left(&mut self, graph: &StateGraph, recorded: &[RecordedSource]) {
        for source in recorded {
            // What was recorded was a block's address.
            let Ok(block) = source.config_address.parse::<ConfigAddress>() else {
                continue;
            };
            if graph.has_block(block.as_str()) && !self.declared.contains(&block) {
                let removed = Target::from(&block);
                if !self.request.removed.contains(&removed) {
                    self.request.removed.push(removed);
                }
            }
        }
    }
}

/// The sources of a request, each block once: where two files are named the last one counts.
pub(crate) fn read_sources(asked: &wire::ScopeRequest) -> Result<Vec<RecordedSource>, EngineError> {
    let mut sources = std::collections::BTreeMap::new();
    for (place, source) in asked.sources.iter().enumerate() {
        let field = |name| format!("sources[{place}].{name}");
        let address: ConfigAddress = read(field("address"), &source.address, recorded)?;
        read(field("file"), &source.file, file)?;
        sources.insert(address.to_string(), source.file.clone());
    }
    let source = |(config_address, file)| RecordedSource {
        config_address,
        file,
    };
    Ok(sources.into_iter().map(source).collect())
}

fn configuration(known: &wire::ScopeConfiguration) -> Result<Configuration, EngineError> {
    let nodes = known.nodes.iter().enumerate().map(|(place, node)| {
        let field = format!("configuration.nodes[{place}]");
        Ok(ConfigNode {
            address: read(format!("{field}.address"), &node.address, block)?,
            dependencies: all(&format!("{field}.dependencies"), &node.dependencies, block)?,
            repetition: repetition(node.repetition),
        })
    });
    let outputs = known.outputs.iter().enumerate().map(|(place, output)| {
        let field = format!("configuration.outputs[{place}]");
        let name = read(format!("{field}.name"), &output.name, |name| {
            (!name.is_empty()).then(|| name.to_owned())
        })?;
        let field = format!("{field}.dependencies");
        let dependencies = all(&field, &output.dependencies, block)?;
        Ok(ConfigOutput { name, dependencies })
    });
    let moves = known.moves.iter().enumerate().map(|(place, one)| {
        let field = |end| format!("configuration.moves[{place}].{end}");
        Ok(Move {
            from: read(field("from"), &one.from, target)?,
            to: read(field("to"), &one.to, target)?,
        })
    });
    Ok(Configuration {
        nodes: nodes.collect::<Result<_, EngineError>>()?,
        calls: match &known.calls {
            None => Calls::Unknown,
            Some(calls) => Calls::Repeated(repeated(calls)?),
        },
        outputs: outputs.collect::<Result<_, EngineError>>()?,
        moves: moves.collect::<Result<_, EngineError>>()?,
        doubts: known.doubts.clone(),
    })
}

fn repeated(calls: &[wire::ScopeCall]) -> Result<Vec<ModuleCall>, EngineError> {
    let call = |(place, call): (usize, &wire::ScopeCall)| {
        let field = format!("configuration.calls[{place}].module");
        let module = read(field, &call.module, |text| {
            text.parse().ok().filter(|_| !text.is_empty())
        })?;
        let repetition = repetition(call.repetition);
        Ok(ModuleCall { module, repetition })
    };
    calls.iter().enumerate().map(call).collect()
}

fn repetition(repetition: wire::ScopeRepetition) -> Repetition {
    match repetition {
        wire::ScopeRepetition::Unknown => Repetition::Unknown,
        wire::ScopeRepetition::Single => Repetition::Single,
        wire::ScopeRepetition::Count => Repetition::Count,
        wire::ScopeRepetition::ForEach => Repetition::ForEach,
    }
}

fn target(text: &str) -> Option<Target> {
    match text {
        "*" => Some(Target::Everything),
        _ => text.parse().ok(),
    }
}

fn block(text: &str) -> Option<ConfigAddress> {
    ConfigAddress::from_str(text).ok()
}

/// A block as it is recorded.
fn recorded(text: &str) -> Option<ConfigAddress> {
    block(text).filter(|_| text.len() <= MAX_TEXT_BYTES)
}

fn file(text: &str) -> Option<()> {
    let fits = (1..=MAX_TEXT_BYTES).contains(&text.len()) && !text.contains('\0');
    fits.then_some(())
}

fn all<T>(
    field: &str,
    texts: &[String],
    reader: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, EngineError> {
    let one = |(place, text): (usize, &String)| read(format!("{field}[{place}]"), text, &reader);
    texts.iter().enumerate().map(one).collect()
}

fn read<T>(
    field: String,
    text: &str,
    reader: impl Fn(&str) -> Option<T>,
) -> Result<T, EngineError> {
    match reader(text) {
        Some(value) => Ok(value),
        None => Err(EngineError::BadScope {
            field,
            text: shown(text),
        }),
    }
}

/// As much of a text as fits into a message.
fn shown(text: &str) -> String {
    const LONGEST: usize = 100;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
