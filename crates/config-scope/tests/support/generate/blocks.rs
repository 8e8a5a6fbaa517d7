//! Random blocks: one method per kind, each adding to the scope what others may refer to.

use super::{
    Generator, Rng,
    expressions::{Many, ODD_KEYS, expression, heredoc, term},
    render::{Block, Value},
};

/// Something a later expression may refer to.
#[derive(Clone)]
pub(crate) enum Offer {
    Managed {
        name: String,
        many: Many,
    },
    Data {
        name: String,
        many: Many,
    },
    Local(String),
    Variable(String),
    Module {
        call: String,
        outputs: Vec<String>,
        many: Many,
    },
}

/// A module while it is being generated.
pub(crate) struct Scope {
    pub(crate) directory: String,
    pub(crate) depth: usize,
    pub(crate) offers: Vec<Offer>,
    /// Each block with the number of offers there were before it.
    pub(crate) blocks: Vec<(Block, usize)>,
    pub(super) has_alias: bool,
    /// Names that a `moved` or `import` block has taken: Terraform wants one of each.
    pub(super) taken: Vec<String>,
}

impl Scope {
    pub(crate) fn new(directory: &str, depth: usize) -> Self {
        let directory = directory.to_owned();
        Self {
            directory,
            depth,
            offers: Vec::new(),
            blocks: Vec::new(),
            has_alias: false,
            taken: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, block: Block, before: usize) {
        self.blocks.push((block, before));
    }
}

impl Generator {
    pub(super) fn expression(&mut self, scope: &Scope) -> Value {
        if self.rng.chance(10) {
            // The place is part of the key: the JSON syntax has no object that names one key twice.
            let member = |place: usize, rng: &mut Rng| {
                let key = format!("k{place}${{{}}}", term(rng, &scope.offers));
                (key, term(rng, &scope.offers))
            };
            let members = (0..=self.rng.below(2))
                .map(|place| member(place, &mut self.rng))
                .collect();
            return Value::Object(members);
        }
        Value::Expression(expression(&mut self.rng, &scope.offers, 0))
    }

    pub(super) fn condition(&mut self, scope: &Scope) -> Value {
        Value::Expression(format!(
            "{} != path.module",
            term(&mut self.rng, &scope.offers)
        ))
    }

    /// Names for `depends_on`: resources, and modules as a whole.
    pub(super) fn names(&mut self, scope: &Scope, only_managed: bool) -> Option<Value> {
        let name = |offer: &Offer| match offer {
            Offer::Managed { name, .. } => Some(format!("terraform_data.{name}")),
            Offer::Data { name, .. } if !only_managed => {
                Some(format!("data.terraform_remote_state.{name}"))
            }
            Offer::Module { call, .. } if !only_managed => Some(format!("module.{call}")),
            _ => None,
        };
        let names: Vec<String> = scope.offers.iter().filter_map(name).collect();
        let count = 1 + self.rng.below(2);
        if names.is_empty() {
            return None;
        }
        Some(Value::Names(
            (0..count).map(|_| self.rng.pick(&names).clone()).collect(),
        ))
    }

    pub(super) fn settings(&mut self, scope: &mut Scope) {
        let mut required = Block::new("required_providers", &[]);
        required.set(
            "terraform",
            Value::Expression("{ source = \"terraform.io/builtin/terraform\" }".to_owned()),
        );
        let mut settings = Block::new("terraform", &[]);
        if scope.depth == 0 {
            settings.set("required_version", Value::Text(">= 1.5".to_owned()));
        }
        // In JSON the members would be templates, so this block stays out of the JSON files.
        if self.rng.chance(30) {
            scope.add(settings, 0);
        }
        if scope.depth == 0 && self.rng.chance(30) {
            scope.has_alias = true;
            let alias = Value::Text("other".to_owned());
            scope.add(
                Block::new("provider", &["terraform"]).with("alias", alias),
                0,
            );
        }
    }

    pub(super) fn entity(&mut self, scope: &mut Scope) {
        match self.rng.below(20) {
            0..=7 => self.managed(scope),
            8 => self.data(scope),
            9..=11 => self.locals(scope),
            12 if scope.depth == 0 => {
                let name = self.fresh("var");
                self.variable(scope, &name);
            }
            13..=15 if scope.depth < 3 => self.call(scope),
            16 => self.check(scope),
            17 => self.movement(scope),
            18 => _ = self.output(scope),
            _ => self.managed(scope),
        }
    }

    fn repetition(&mut self, scope: &Scope, block: &mut Block) -> Many {
        match self.rng.below(6) {
            0 => {
                let value = format!("length([{}])", term(&mut self.rng, &scope.offers));
                block.set("count", Value::Expression(value));
                Many::Count
            }
            1 => {
                let (key, value) = (*self.rng.pick(ODD_KEYS), term(&mut self.rng, &scope.offers));
                let value = match self.rng.below(3) {
                    0 => format!("toset([{key}, \"b\", {value}])"),
                    1 => format!("{{ {key} = {value}, b = 1 }}"),
                    _ => format!("{{ for k in [{value}] : k => {value} }}"),
                };
                block.set("for_each", Value::Expression(value));
                Many::Keyed
            }
            _ => Many::One,
        }
    }

    fn managed(&mut self, scope: &mut Scope) {
        let name = self.fresh("r");
        let before = scope.offers.len();
        let mut block = Block::new("resource", &["terraform_data", &name]);
        let many = self.repetition(scope, &mut block);
        if self.rng.chance(80) {
            let input = if self.rng.chance(20) {
                Value::Heredoc(heredoc(&mut self.rng, &scope.offers))
            } else {
                self.expression(scope)
            };
            block.set("input", input);
        }
        if self.rng.chance(20) {
            let value = self.expression(scope);
            block.set("triggers_replace", value);
        }
        if self.rng.chance(20)
            && let Some(names) = self.names(scope, false)
        {
            block.set("depends_on", names);
        }
        if scope.has_alias && self.rng.chance(30) {
            block.set("provider", Value::Name("terraform.other".to_owned()));
        }
        if self.rng.chance(25) {
            let lifecycle = self.lifecycle(scope);
            block.blocks.push(lifecycle);
        }
        if self.rng.chance(20) {
            let provisioner = self.provisioner(scope);
            block.blocks.push(provisioner);
        }
        if self.rng.chance(8) {
            let value = self.expression(scope);
            block
                .blocks
                .push(Block::new("connection", &[]).with("host", value));
        }
        scope.add(block, before);
        scope.offers.push(Offer::Managed { name, many });
    }

    fn data(&mut self, scope: &mut Scope) {
        let before = scope.offers.len();
        let name = self.fresh("d");
        let mut block = self.remote_state(scope, &name);
        let many = self.repetition(scope, &mut block);
        if self.rng.chance(20)
            && let Some(names) = self.names(scope, false)
        {
            block.set("depends_on", names);
        }
        scope.add(block, before);
        scope.offers.push(Offer::Data { name, many });
    }

    fn remote_state(&mut self, scope: &Scope, name: &str) -> Block {
        let path = expression(&mut self.rng, &scope.offers, 1);
        Block::new("data", &["terraform_remote_state", name])
            .with("backend", Value::Text("local".to_owned()))
            .with("config", Value::Expression(format!("{{ path = {path} }}")))
    }

    fn locals(&mut self, scope: &mut Scope) {
        let before = scope.offers.len();
        let mut block = Block::new("locals", &[]);
        let mut names = Vec::new();
        for _ in 0..=self.rng.below(3) {
            let name = self.fresh("l");
            let value = self.expression(scope);
            block.set(&name, value);
            names.push(name);
        }
        scope.add(block, before);
        scope.offers.extend(names.into_iter().map(Offer::Local));
    }

    pub(super) fn variable(&mut self, scope: &mut Scope, name: &str) {
        let before = scope.offers.len();
        let mut block = Block::new("variable", &[name]);
        block.set("default", Value::Text("d".to_owned()));
        if self.rng.chance(25) {
            let other = term(&mut self.rng, &scope.offers);
            block.blocks.push(
                Block::new("validation", &[])
                    .with(
                        "condition",
                        Value::Expression(format!("var.{name} != {other}")),
                    )
                    .with("error_message", Value::Text("no".to_owned())),
            );
        }
        scope.add(block, before);
        // Some inputs stay unused: a module as a whole waits for them nevertheless.
        if scope.depth == 0 || self.rng.chance(60) {
            scope.offers.push(Offer::Variable(name.to_owned()));
        }
    }

    fn call(&mut self, scope: &mut Scope) {
        let before = scope.offers.len();
        let known = (!self.finished.is_empty() && self.rng.chance(35))
            .then(|| self.rng.pick(&self.finished).clone());
        let module = match known {
            Some(module) => module,
            None => {
                self.serial += 1;
                let directory = format!("mods/m{}", self.serial);
                let module = self.module(&directory, scope.depth + 1);
                self.finished.push(module.clone());
                module
            }
        };
        let name = module.directory.trim_start_matches("mods/");
        let source = match (scope.directory.as_str(), self.rng.below(3)) {
            (".", 0) => format!("./mods/{name}/"),
            (".", 1) => format!("./mods/../mods/{name}"),
            (".", _) => format!("./mods/{name}"),
            (_, 0) => format!("../../mods/{name}"),
            _ => format!("../{name}"),
        };
        let call = self.fresh("m");
        let mut block = Block::new("module", &[&call]).with("source", Value::Text(source));
        let many = self.repetition(scope, &mut block);
        for input in &module.inputs {
            if self.rng.chance(75) {
                let value = self.expression(scope);
                block.set(input, value);
            }
        }
        if self.rng.chance(20)
            && let Some(names) = self.names(scope, false)
        {
            block.set("depends_on", names);
        }
        if scope.has_alias && self.rng.chance(40) {
            let pair = ("terraform".to_owned(), "terraform.other".to_owned());
            block.set("providers", Value::Pairs(vec![pair]));
        }
        scope.add(block, before);
        scope.offers.push(Offer::Module {
            call,
            outputs: module.outputs,
            many,
        });
    }

    pub(super) fn output(&mut self, scope: &mut Scope) -> String {
        let before = scope.offers.len();
        let name = self.fresh("out");
        let value = self.expression(scope);
        let mut block = Block::new("output", &[&name]).with("value", value);
        if self.rng.chance(20)
            && let Some(names) = self.names(scope, false)
        {
            block.set("depends_on", names);
        }
        if self.rng.chance(20) {
            let condition = self.condition(scope);
            block.blocks.push(
                Block::new("precondition", &[])
                    .with("condition", condition)
                    .with("error_message", Value::Text("no".to_owned())),
            );
        }
        scope.add(block, before);
        name
    }

    fn check(&mut self, scope: &mut Scope) {
        let before = scope.offers.len();
        let name = self.fresh("c");
        let mut block = Block::new("check", &[&name]);
        let mut condition = self.condition(scope);
        if self.rng.chance(60) {
            let data = self.fresh("cd");
            let nested = self.remote_state(scope, &data);
            block.blocks.push(nested);
            let value = format!("data.terraform_remote_state.{data}.outputs.x == 1");
            condition = Value::Expression(value);
        }
        block.blocks.push(
            Block::new("assert", &[])
                .with("condition", condition)
                .with("error_message", Value::Text("no".to_owned())),
        );
        scope.add(block, before);
    }
}
