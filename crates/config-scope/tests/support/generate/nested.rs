//! Blocks inside resources.

use super::{
    Generator,
    blocks::Scope,
    expressions::term,
    render::{Block, Value},
};

impl Generator {
    pub(super) fn lifecycle(&mut self, scope: &Scope) -> Block {
        let mut lifecycle = Block::new("lifecycle", &[]);
        if self.rng.chance(30) {
            lifecycle.set("create_before_destroy", Value::Bool(true));
        }
        if self.rng.chance(30) {
            lifecycle.set("ignore_changes", Value::Names(vec!["input".to_owned()]));
        }
        if self.rng.chance(40)
            && let Some(Value::Names(names)) = self.names(scope, true)
        {
            let forms = ["", ".output", "[0]", "[\"a.b\"].output"];
            let names = names
                .into_iter()
                .map(|name| format!("{name}{}", self.rng.pick(&forms)));
            lifecycle.set("replace_triggered_by", Value::Names(names.collect()));
        }
        for keyword in ["precondition", "postcondition"] {
            if self.rng.chance(35) {
                let condition = self.condition(scope);
                lifecycle.blocks.push(
                    Block::new(keyword, &[])
                        .with("condition", condition)
                        .with("error_message", Value::Text("no".to_owned())),
                );
            }
        }
        lifecycle
    }

    pub(super) fn provisioner(&mut self, scope: &Scope) -> Block {
        let mut provisioner = Block::new("provisioner", &["local-exec"]);
        let command = format!(
            "\"echo ${{{}}} ${{self.id}}\"",
            term(&mut self.rng, &scope.offers)
        );
        provisioner.set("command", Value::Expression(command));
        if self.rng.chance(40) {
            let value = format!("{{ A = {} }}", term(&mut self.rng, &scope.offers));
            provisioner.set("environment", Value::Expression(value));
        }
        if self.rng.chance(30) {
            let value = self.expression(scope);
            provisioner
                .blocks
                .push(Block::new("connection", &[]).with("host", value));
        }
        provisioner
    }
}
