//! How a configuration is laid out: which calls are repeated and where they stand, which modules
//! stand on disk, which variables files assign.

use std::collections::BTreeSet;

use super::{Configuration, LocalModule};
use crate::{
    address::ConfigModule,
    facts::{CallSource, Repetition},
    module::{Location, ModuleCall, is_local},
    source::SourcePath,
};

impl Configuration {
    /// The module calls with `count` or `for_each`, by the path of the module they call.
    pub fn repeated_calls(&self) -> Vec<(ConfigModule, Repetition)> {
        let calls = self.loaded.modules.iter().flat_map(|module| {
            let calls = module.facts.calls.iter();
            calls.filter_map(|(name, call)| Some((module.path.child(name), call.facts.repetition?)))
        });
        calls.collect()
    }

    /// Where the root module calls the module at `module`, or the one that this stands in.
    pub fn outermost_call(&self, module: &ConfigModule) -> Option<&Location> {
        let root = &self.loaded.modules[0].facts;
        root.calls.get(module.0.first()?).map(|call| &call.at)
    }

    /// Whether a module call leads to `module`.
    pub fn has_module(&self, module: &ConfigModule) -> bool {
        self.modules().any(|known| known == module)
    }

    /// The modules whose source is a path next to their caller.
    pub fn local_modules(&self) -> Vec<LocalModule> {
        let mut local = Vec::new();
        for module in &self.loaded.modules {
            for (name, call) in &module.facts.calls {
                let (Some(CallSource::Literal(source)), Some(ModuleCall::Found(index))) =
                    (&call.facts.source, module.calls.get(name))
                else {
                    continue;
                };
                let Some(source) = normalised(source) else {
                    continue;
                };
                local.push(LocalModule {
                    key: module.path.child(name).0.join("."),
                    source,
                    directory: self.loaded.modules[*index].directory.clone(),
                });
            }
        }
        local
    }

    /// The variables that files assign which Terraform reads by itself: `terraform.tfvars` and
    /// `*.auto.tfvars`, in either syntax.
    pub fn assigned_variables(&self) -> BTreeSet<&str> {
        let files = self.loaded.modules[0].facts.assigned.iter();
        files
            .filter(|(file, _)| is_read_unasked(file))
            .flat_map(|(_, names)| names.iter().map(String::as_str))
            .collect()
    }
}

fn is_read_unasked(file: &SourcePath) -> bool {
    let name = file.file_name();
    let name = name.strip_suffix(".json").unwrap_or(name);
    name == "terraform.tfvars" || name.ends_with(".auto.tfvars")
}

/// A local source in Terraform's own spelling; `None` for any other kind of source.
fn normalised(source: &str) -> Option<String> {
    if !is_local(source) {
        return None;
    }
    let clean = SourcePath::new(source);
    Some(match clean.as_str() {
        // Terraform ends these with the slash that makes a directory of them.
        "." | ".." => format!("{clean}/"),
        above if above.starts_with("../") => above.to_owned(),
        below => format!("./{below}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryTree;

    fn configuration(files: &[(&str, &str)]) -> Configuration {
        let mut tree = MemoryTree::new();
        for (path, text) in files {
            tree.insert(path, *text);
        }
        Configuration::load(&tree).unwrap()
    }

    #[test]
    fn calls_and_local_modules_are_told_with_their_places() {
        let found = configuration(&[
            (
                "main.tf",
                "module \"a\" {\n source = \"./m/../m\"\n for_each = {}\n}\nmodule \"far\" {\n source = \"x/y/z\"\n}\n",
            ),
            ("m/main.tf", "module \"b\" {\n source = \"../n\"\n}\n"),
            ("n/main.tf", "resource \"t\" \"x\" {}\n"),
        ]);
        let a = ConfigModule(vec!["a".to_owned()]);
        assert_eq!(found.repeated_calls(), [(a.clone(), Repetition::ForEach)]);
        let call = found.outermost_call(&a.child("b")).unwrap();
        assert_eq!(call.to_string(), "main.tf:1");
        let local: Vec<_> = found
            .local_modules()
            .into_iter()
            .map(|module| (module.key, module.source, module.directory.to_string()))
            .collect();
        let expected = [("a", "./m", "m"), ("a.b", "../n", "n")]
            .map(|(key, source, at)| (key.to_owned(), source.to_owned(), at.to_owned()));
        assert_eq!(local, expected);
    }

    #[test]
    fn only_files_that_terraform_reads_unasked_assign() {
        let found = configuration(&[
            ("main.tf", "variable \"a\" {}\n"),
            ("terraform.tfvars", "a = 1\n"),
            ("x.auto.tfvars.json", "{\"b\": 1}"),
            ("other.tfvars", "c = 1\n"),
        ]);
        let names: Vec<_> = found.assigned_variables().into_iter().collect();
        assert_eq!(names, ["a", "b"]);
    }
}
