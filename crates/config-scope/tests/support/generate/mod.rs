//! A seeded generator of configurations that `terraform graph` accepts.
//!
//! It uses what is built into Terraform (`terraform_data`, `terraform_remote_state`), so nothing
//! must be downloaded, and every way a dependency can be written. An expression only refers to
//! what was generated before it, so there are no cycles. Decoys (escapes, comments, shadowed
//! names) look like references and are none.

mod blocks;
mod changes;
mod expressions;
mod nested;
mod render;
mod rng;

use std::collections::BTreeMap;

pub(crate) use rng::Rng;

use self::{
    blocks::Scope,
    render::{Block, Style},
};

/// Files by path, relative to the root module.
pub(crate) type Files = BTreeMap<String, String>;

/// What a caller must know of a finished module.
#[derive(Clone)]
struct Module {
    directory: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
}

/// Which syntax the files are written in.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Layout {
    Mixed,
    Native,
    Json,
}

pub(crate) struct Generator {
    rng: Rng,
    layout: Layout,
    files: Files,
    finished: Vec<Module>,
    serial: usize,
}

/// The configuration of a seed.
pub(crate) fn configuration(seed: u64) -> Files {
    configuration_in(seed, Layout::Mixed)
}

/// The same blocks, in other files: what they mean must not change.
pub(crate) fn configuration_in(seed: u64, layout: Layout) -> Files {
    let rng = Rng::new(seed);
    let mut generator = Generator {
        rng,
        layout,
        files: Files::new(),
        finished: Vec::new(),
        serial: 0,
    };
    generator.module(".", 0);
    generator.files
}

impl Generator {
    fn fresh(&mut self, stem: &str) -> String {
        self.serial += 1;
        let odd = ["", "", "", "-x", "_y", "é", "A-"];
        format!("{stem}{}{}", self.rng.pick(&odd), self.serial)
    }

    /// Generates the module in `directory`, with everything it calls.
    fn module(&mut self, directory: &str, depth: usize) -> Module {
        let mut scope = Scope::new(directory, depth);
        let inputs: Vec<String> = match depth {
            0 => Vec::new(),
            _ => (0..self.rng.below(4)).map(|_| self.fresh("in")).collect(),
        };
        for input in &inputs {
            self.variable(&mut scope, input);
        }
        if depth == 0 || self.rng.chance(40) {
            self.settings(&mut scope);
        }
        let size = if depth == 0 {
            6 + self.rng.below(10)
        } else {
            1 + self.rng.below(6)
        };
        for _ in 0..size {
            self.entity(&mut scope);
        }
        let mut outputs = Vec::new();
        for _ in 0..=self.rng.below(3) {
            outputs.push(self.output(&mut scope));
        }
        self.write(&scope);
        Module {
            directory: directory.to_owned(),
            inputs,
            outputs,
        }
    }

    /// Spreads the blocks of a module over files of both syntaxes, then adds what overrides them.
    fn write(&mut self, scope: &Scope) {
        let names = [
            "main.tf",
            "a.tf",
            "z.tf.json",
            "other.tf.json",
            "crlf.tf",
            "bom.tf",
        ];
        let files: Vec<&str> = (0..=self.rng.below(4))
            .map(|_| *self.rng.pick(&names))
            .collect();
        let mut contents: BTreeMap<&str, Vec<Block>> = BTreeMap::new();
        for (block, _) in &scope.blocks {
            contents
                .entry(self.rng.pick::<&str>(&files))
                .or_default()
                .push(block.clone());
        }
        // A directory must not be empty, nor may all of it be in one syntax by accident.
        contents.entry("main.tf").or_default();
        for (name, blocks) in contents {
            self.put(scope, name, &blocks);
        }
        if self.rng.chance(45) {
            for _ in 0..=self.rng.below(2) {
                let names = ["override.tf", "b_override.tf", "c_override.tf.json"];
                let name = *self.rng.pick(&names);
                let blocks = self.overrides(scope);
                self.put(scope, name, &blocks);
            }
        }
        if self.rng.chance(20) {
            let hidden = path(&scope.directory, ".hidden.tf");
            self.files.insert(hidden, "not { configuration".to_owned());
        }
    }

    fn put(&mut self, scope: &Scope, name: &str, blocks: &[Block]) {
        let style = Style {
            spread: self.rng.chance(50),
            comments: self.rng.chance(50),
        };
        let name = match self.layout {
            Layout::Mixed => name.to_owned(),
            // `z.tf.json` must not meet a `z.tf`, and an override file must stay one.
            Layout::Native => name
                .replace("c_override.tf.json", "d_override.tf")
                .replace(".tf.json", "1.tf"),
            Layout::Json if name.ends_with(".json") => name.to_owned(),
            Layout::Json if name == "override.tf" => "override.tf.json".to_owned(),
            Layout::Json if name == "b_override.tf" => "b_override.tf.json".to_owned(),
            Layout::Json => name.replace(".tf", "1.tf.json"),
        };
        let name = name.as_str();
        let text = if name.ends_with(".json") {
            render::json(blocks, style)
        } else {
            render::hcl(blocks, style)
        };
        let text = match name {
            "crlf.tf" => text.replace('\n', "\r\n"),
            "bom.tf" => format!("\u{feff}{text}"),
            _ => text,
        };
        self.files.insert(path(&scope.directory, name), text);
    }
}

fn path(directory: &str, name: &str) -> String {
    if directory == "." {
        name.to_owned()
    } else {
        format!("{directory}/{name}")
    }
}
