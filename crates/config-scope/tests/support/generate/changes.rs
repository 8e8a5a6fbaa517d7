//! Blocks about other blocks: `moved`, `removed` and `import`, and what override files say.

use super::{
    Generator,
    blocks::{Offer, Scope},
    expressions::Many,
    render::{Block, Value},
};

impl Generator {
    /// A `moved`, `removed` or `import` block.
    pub(super) fn movement(&mut self, scope: &mut Scope) {
        let before = scope.offers.len();
        let managed = |offer: &Offer| match offer {
            Offer::Managed { name, many } => Some((name.clone(), *many)),
            _ => None,
        };
        let mut candidates: Vec<(String, Many)> = scope.offers.iter().filter_map(managed).collect();
        candidates.retain(|(name, _)| !scope.taken.contains(name));
        let gone = self.fresh("gone");
        match (self.rng.below(4), candidates.is_empty()) {
            (0, _) | (_, true) => {
                let mut block = Block::new("removed", &[])
                    .with("from", Value::Name(format!("terraform_data.{gone}")));
                let lifecycle = Block::new("lifecycle", &[]).with("destroy", Value::Bool(false));
                block.blocks.push(lifecycle);
                scope.add(block, before);
            }
            (1, false) if scope.depth == 0 => {
                let (name, many) = self.rng.pick(&candidates).clone();
                scope.taken.push(name.clone());
                let key = match many {
                    Many::One => "",
                    Many::Count => "[0]",
                    Many::Keyed => "[\"a.b\"]",
                };
                let block = Block::new("import", &[])
                    .with("to", Value::Name(format!("terraform_data.{name}{key}")))
                    .with("id", Value::Text("some-id".to_owned()));
                scope.add(block, before);
            }
            _ => {
                let (name, _) = self.rng.pick(&candidates).clone();
                scope.taken.push(name.clone());
                let block = Block::new("moved", &[])
                    .with("from", Value::Name(format!("terraform_data.{gone}")))
                    .with("to", Value::Name(format!("terraform_data.{name}")));
                scope.add(block, before);
            }
        }
    }

    /// Blocks that change some of the module's own, referring to nothing that came later.
    pub(super) fn overrides(&mut self, scope: &Scope) -> Vec<Block> {
        let mut blocks = Vec::new();
        for _ in 0..=self.rng.below(2) {
            let (base, before) = self.rng.pick(&scope.blocks).clone();
            let earlier = Scope {
                directory: scope.directory.clone(),
                depth: scope.depth,
                offers: scope.offers[..before].to_vec(),
                blocks: Vec::new(),
                has_alias: false,
                taken: Vec::new(),
            };
            let labels: Vec<&str> = base.labels.iter().map(String::as_str).collect();
            let mut over = Block::new(&base.keyword, &labels);
            let argument = match base.keyword.as_str() {
                "resource" => "input".to_owned(),
                "output" => "value".to_owned(),
                "locals" | "module" => {
                    let names = base.arguments.iter().map(|(name, _)| name.clone());
                    let settings = ["source", "depends_on", "providers", "count", "for_each"];
                    let names: Vec<String> = names
                        .filter(|name| !settings.contains(&name.as_str()))
                        .collect();
                    if names.is_empty() {
                        continue;
                    }
                    self.rng.pick(&names).clone()
                }
                _ => continue,
            };
            let value = self.expression(&earlier);
            over.set(&argument, value);
            if base.keyword == "resource" && self.rng.chance(30) {
                let provisioner = self.provisioner(&earlier);
                over.blocks.push(provisioner);
            }
            blocks.push(over);
        }
        blocks
    }
}
