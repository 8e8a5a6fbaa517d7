//! The request to the server: the selection, and of the configuration only what bears on it.

use std::collections::BTreeSet;

use config_scope::{
    ConfigAddress, ConfigModule, Configuration, FileRole, Mode, PlanTarget, Repetition, Target,
};
use protocol::scope::{
    AddressSource, ScopeCall, ScopeConfiguration, ScopeMove, ScopeNode, ScopeOperation,
    ScopeOutput, ScopeRepetition, ScopeRequest,
};

use super::problems::{self, listed};
use super::selectors::Selected;
use crate::failure::Result;

/// More targets than these make a plan slower than the module they stand in.
const MOST_TARGETS: usize = 500;

/// What the state has, as far as it was asked.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Blocks last written from the selected files, each with its file.
    pub(crate) recorded: Vec<AddressSource>,
    /// Every managed block in the state; absent where the configuration has the very same ones.
    pub(crate) inventory: Option<Vec<AddressSource>>,
    /// The names of the root outputs in the state.
    pub(crate) outputs: Vec<String>,
}

/// A scope to ask the server about, and what its user must know.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) request: ScopeRequest,
    pub(crate) notes: Vec<String>,
}

/// Composes the request.
///
/// # Errors
/// Usage failures for a selection that means nothing.
pub(crate) fn compose(
    configuration: &Configuration,
    selected: &Selected,
    known: &Known,
    operation: ScopeOperation,
) -> Result<Scope> {
    let selection = &selected.selection;
    let mut notes = Vec::new();
    let stale = stale_outputs(configuration, known);
    let mut removed = refuse_unknown(configuration, selected, known, &stale)?;
    let deleted: BTreeSet<&str> = known
        .recorded
        .iter()
        .filter(|source| !is_accounted_for(configuration, &source.address))
        .map(|source| source.address.as_str())
        .collect();
    let write = write_targets(configuration, &selection.write.targets, &mut notes);
    if write.is_empty() && deleted.is_empty() {
        let failure = problems::nothing_selected(&selection.files);
        return Err(problems::with_stale_outputs(failure, &stale));
    }
    note_bystanders(selected, &mut notes);
    // Where objects are to be gone from, none may be left: the block has done its work, or there never were any.
    let left = configuration.removed().iter().map(|block| &block.from);
    let left = left.chain(configuration.moves().iter().map(|block| &block.from));
    for text in left.map(ToString::to_string) {
        if write.contains(&text) && !removed.contains(&text) {
            removed.push(text);
        }
    }
    note_orphans(configuration, known, &removed, &deleted, &mut notes);
    if !stale.is_empty() {
        notes.push(format!(
            "{}, and may be out of date: only a run on the whole state removes it",
            problems::stale(&stale)
        ));
    }
    let declared = known
        .recorded
        .iter()
        .map(|source| source.address.clone())
        .filter(|address| !deleted.contains(address.as_str()))
        .collect();
    let request = ScopeRequest {
        operation,
        write,
        read: Vec::new(),
        removed,
        undeployed: Vec::new(),
        configuration: Some(relevant(configuration, selected, operation)),
        files: selected.files.iter().map(ToString::to_string).collect(),
        declared,
        sources: sources(configuration, &selection.closure),
    };
    Ok(Scope { request, notes })
}

/// Targets that the configuration does not have: those that the state has are to be removed.
fn refuse_unknown(
    configuration: &Configuration,
    selected: &Selected,
    known: &Known,
    stale: &BTreeSet<String>,
) -> Result<Vec<String>> {
    let recorded: BTreeSet<&str> = known
        .recorded
        .iter()
        .map(|source| source.file.as_str())
        .collect();
    if selected.files_were_named {
        for report in &selected.selection.files {
            if report.role == FileRole::Unknown && !recorded.contains(report.file.as_str()) {
                let failure = problems::unknown_file(report, configuration);
                return Err(problems::with_stale_outputs(failure, stale));
            }
        }
    }
    let mut removed = Vec::new();
    for unmatched in &selected.selection.unmatched {
        let in_state = known
            .inventory
            .iter()
            .flatten()
            .any(|source| means_block(&unmatched.target, &source.address));
        if !in_state {
            return Err(problems::unknown_target(unmatched));
        }
        removed.push(unmatched.target.to_string());
    }
    Ok(removed)
}

/// Outputs that the state has and no file declares any more. A run on a part evaluates only outputs that are declared, so
/// these stay as they are.
fn stale_outputs(configuration: &Configuration, known: &Known) -> BTreeSet<String> {
    let declared = configuration.outputs();
    let is_declared = |name: &String| declared.iter().any(|output| output.name == *name);
    let names = known.outputs.iter().filter(|name| !is_declared(name));
    names.cloned().collect()
}

/// Whether a target has to do with the block at `address`, keys aside.
fn means_block(target: &Target, address: &str) -> bool {
    let Ok(block) = address.parse::<ConfigAddress>() else {
        return false;
    };
    match target.config_address() {
        Some(wanted) => wanted == block,
        None => target.config_module().contains(&block.module),
    }
}

/// Whether the configuration says what becomes of the block at `address`: it declares it, or a
/// `moved` or `removed` block names it.
fn is_accounted_for(configuration: &Configuration, address: &str) -> bool {
    let Ok(block) = address.parse::<ConfigAddress>() else {
        return true;
    };
    let names = |target: &Target| means_block(target, address);
    configuration.find_node(&block).is_some()
        || configuration.removed().iter().any(|one| names(&one.from))
        || configuration
            .moves()
            .iter()
            .any(|one| one.ends().iter().any(names))
}

/// What is to be written, with modules in the place of resources that Terraform could not target
/// in all their instances, or of too many.
fn write_targets(
    configuration: &Configuration,
    targets: &[PlanTarget],
    notes: &mut Vec<String>,
) -> Vec<String> {
    let mut write = BTreeSet::new();
    let mut whole_calls = BTreeSet::new();
    for plan in targets {
        let declared = plan
            .target
            .config_address()
            .is_none_or(|address| configuration.find_node(&address).is_some());
        match &plan.unkeyed_call {
            Some(call) if declared => {
                whole_calls.insert(call.to_string());
                write.insert(call.to_string());
            }
            _ => {
                write.insert(plan.target.to_string());
            }
        }
    }
    if !whole_calls.is_empty() {
        notes.push(format!(
            "{}: selected as a whole, because a part of a repeated module cannot be planned in all its instances",
            listed(&whole_calls)
        ));
    }
    if write.len() > MOST_TARGETS {
        let before = write.len();
        write = coarsened(write);
        notes.push(format!(
            "{before} targets are more than {MOST_TARGETS}: those in modules are planned as whole modules, {} targets in all",
            write.len()
        ));
    }
    write.into_iter().collect()
}

fn coarsened(write: BTreeSet<String>) -> BTreeSet<String> {
    let outermost = |text: String| {
        let module = text.parse::<Target>().ok().and_then(|target| {
            let name = &target.module.first()?.name;
            Some(Target::from(&ConfigModule::root().child(name)).to_string())
        });
        module.unwrap_or(text)
    };
    write.into_iter().map(outermost).collect()
}

/// Files among the selected ones that select nothing, and what depends on what they say.
fn note_bystanders(selected: &Selected, notes: &mut Vec<String>) {
    for report in &selected.selection.files {
        let affected: BTreeSet<String> = report
            .affects
            .iter()
            .filter(|address| !selected.selection.write.addresses.contains(*address))
            .map(ToString::to_string)
            .collect();
        if !affected.is_empty() {
            notes.push(format!(
                "{} also has a say in what is not selected: {}",
                report.file,
                listed(&affected)
            ));
        }
    }
}

/// Objects that the configuration does not mention and that this run leaves alone.
fn note_orphans(
    configuration: &Configuration,
    known: &Known,
    removed: &[String],
    deleted: &BTreeSet<&str>,
    notes: &mut Vec<String>,
) {
    let removed: Vec<Target> = removed
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect();
    let is_orphan = |source: &&AddressSource| {
        !deleted.contains(source.address.as_str())
            && !removed
                .iter()
                .any(|target| means_block(target, &source.address))
            && !is_accounted_for(configuration, &source.address)
    };
    let orphans: BTreeSet<String> = known
        .inventory
        .iter()
        .flatten()
        .filter(is_orphan)
        .map(|source| match source.file.as_str() {
            "" => source.address.clone(),
            file => format!("{} (last written from {file})", source.address),
        })
        .collect();
    if !orphans.is_empty() {
        notes.push(format!(
            "in the state and no longer in the configuration, and not part of this run: {}; \
             add `--target ADDRESS` to have one destroyed",
            listed(&orphans)
        ));
    }
}

/// The blocks that the scope consists of, and what else names one of them.
fn relevant(
    configuration: &Configuration,
    selected: &Selected,
    operation: ScopeOperation,
) -> ScopeConfiguration {
    let selection = &selected.selection;
    let blocks = match operation {
        ScopeOperation::Apply => selection.closure.clone(),
        ScopeOperation::Destroy => {
            configuration.closure(&configuration.dependents(&selection.write.addresses))
        }
    };
    let nodes = blocks
        .iter()
        .map(|address| ScopeNode {
            address: address.to_string(),
            dependencies: texts(&configuration.dependencies(address)),
            repetition: configuration
                .find_node(address)
                .map_or(ScopeRepetition::Unknown, |node| repetition(node.repetition)),
        })
        .collect();
    let outputs = configuration
        .outputs()
        .into_iter()
        .filter(|output| !output.dependencies.is_disjoint(&blocks))
        .map(|output| ScopeOutput {
            dependencies: texts(&output.dependencies),
            name: output.name,
        })
        .collect();
    let moves = selection
        .moves
        .iter()
        .map(|touched| {
            let [from, to] = touched.moved.ends();
            ScopeMove {
                from: from.to_string(),
                to: to.to_string(),
            }
        })
        .collect();
    ScopeConfiguration {
        nodes,
        calls: Some(calls(configuration, selected, &blocks)),
        outputs,
        moves,
        doubts: configuration
            .doubts()
            .iter()
            .map(ToString::to_string)
            .collect(),
    }
}

/// The repeated calls on the way to anything in the scope.
fn calls(
    configuration: &Configuration,
    selected: &Selected,
    blocks: &BTreeSet<ConfigAddress>,
) -> Vec<ScopeCall> {
    let mut modules: BTreeSet<ConfigModule> =
        blocks.iter().map(|block| block.module.clone()).collect();
    modules.extend(selected.selection.write.modules.iter().cloned());
    for touched in &selected.selection.moves {
        modules.extend(touched.moved.ends().iter().map(Target::config_module));
    }
    configuration
        .repeated_calls()
        .into_iter()
        .filter(|(call, _)| {
            modules
                .iter()
                .any(|module| call.contains(module) || module.contains(call) && !module.is_root())
        })
        .map(|(call, given)| ScopeCall {
            module: call.to_string(),
            repetition: repetition(Some(given)),
        })
        .collect()
}

fn repetition(repetition: Option<Repetition>) -> ScopeRepetition {
    match repetition {
        None => ScopeRepetition::Single,
        Some(Repetition::Count) => ScopeRepetition::Count,
        Some(Repetition::ForEach) => ScopeRepetition::ForEach,
    }
}

/// The file that each block is recorded with if the run writes it: the one it stands in, and for
/// what stands in a module the one that has the outermost call, so that deleting the call is seen.
/// What the write set needs is among them: the run creates what is not deployed yet.
fn sources(configuration: &Configuration, blocks: &BTreeSet<ConfigAddress>) -> Vec<AddressSource> {
    blocks
        .iter()
        .filter(|address| address.mode == Mode::Managed)
        .filter_map(|address| {
            let at = match configuration.outermost_call(&address.module) {
                Some(call) => call,
                None => &configuration.find_node(address)?.at,
            };
            Some(AddressSource {
                address: address.to_string(),
                file: at.file.to_string(),
            })
        })
        .collect()
}

fn texts(addresses: &BTreeSet<ConfigAddress>) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use config_scope::{MemoryTree, Selectors, SourcePath};

    use super::*;

    /// The request for one file of a configuration with a module of `count` resources.
    fn composed(count: usize, outputs: &[&str]) -> Scope {
        let mut tree = MemoryTree::new();
        let root = "module \"m\" {\n  source = \"./m\"\n}\noutput \"kept\" {\n  value = 1\n}\n";
        tree.insert("main.tf", root);
        let block = |n: usize| format!("resource \"terraform_data\" \"r{n}\" {{}}\n");
        tree.insert("m/many.tf", (0..count).map(block).collect::<String>());
        let configuration = Configuration::load(&tree).unwrap();
        let files = vec![SourcePath::new("m/many.tf")];
        let selected = Selected {
            selection: configuration.select(&Selectors {
                files: files.clone(),
                targets: Vec::new(),
            }),
            files,
            files_were_named: true,
        };
        let known = Known {
            outputs: outputs.iter().map(|name| (*name).to_owned()).collect(),
            ..Known::default()
        };
        compose(&configuration, &selected, &known, ScopeOperation::Apply).unwrap()
    }

    #[test]
    fn more_targets_than_a_plan_takes_well_become_modules_and_are_reported() {
        let few = composed(MOST_TARGETS, &[]);
        assert_eq!(few.request.write.len(), MOST_TARGETS);
        assert!(few.notes.is_empty(), "{:?}", few.notes);
        let many = composed(MOST_TARGETS + 1, &[]);
        assert_eq!(many.request.write, ["module.m"]);
        assert!(
            many.notes[0].starts_with("501 targets are more than 500"),
            "{:?}",
            many.notes
        );
    }

    #[test]
    fn an_output_that_nothing_declares_any_more_is_named() {
        assert!(composed(1, &["kept"]).notes.is_empty());
        let notes = composed(1, &["gone", "kept"]).notes;
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("output gone,"), "{notes:?}");
    }
}
