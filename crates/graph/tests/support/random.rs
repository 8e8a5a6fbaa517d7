//! Random states: resources in nested modules, with and without keys, depending on each other.

use super::Rng;
use super::rows::{Name, Row, State, Which};

/// Blocks of the configuration that a random state is made from.
pub(crate) fn block(rng: &mut Rng) -> Block {
    const MODULES: [&[&str]; 6] = [&[], &[], &["m"], &["m2"], &["k"], &["m", "k"]];
    let modules = rng.pick(&MODULES).iter().map(ToString::to_string).collect();
    let data = rng.one_in(5);
    Block {
        modules,
        data,
        name: format!("n{}", rng.below(9)),
    }
}

/// `[module.<call>.]*[data.]t.<name>`; calls beginning with `k` have keys.
pub(crate) struct Block {
    modules: Vec<String>,
    data: bool,
    name: String,
}

impl Block {
    pub(crate) fn config_address(&self) -> String {
        let mut text = String::new();
        for call in &self.modules {
            text.push_str(&format!("module.{call}."));
        }
        format!(
            "{text}{}t.{}",
            if self.data { "data." } else { "" },
            self.name
        )
    }

    /// An address of one of its instances.
    pub(crate) fn instance(&self, rng: &mut Rng) -> String {
        const KEYS: [&str; 4] = ["", "[0]", "[1]", "[\"a.b\"]"];
        let mut text = String::new();
        for call in &self.modules {
            let key = if call.starts_with('k') {
                rng.pick(&KEYS[1..])
            } else {
                ""
            };
            text.push_str(&format!("module.{call}{key}."));
        }
        let mode = if self.data { "data." } else { "" };
        format!("{text}{mode}t.{}{}", self.name, rng.pick(&KEYS))
    }
}

/// A row with a random name, and what it depends on.
pub(crate) fn row(rng: &mut Rng, born: u64) -> (Name, Row) {
    let block = block(rng);
    let object = match rng.below(8) {
        0 => Which::Deposed(format!("{:08x}", rng.below(3))),
        1 => Which::Shell,
        _ => Which::Current,
    };
    let count = rng.below(4);
    let dependencies = (0..count)
        .map(|_| self::block(rng).config_address())
        .collect();
    let row = Row {
        config_address: block.config_address(),
        dependencies,
        born,
    };
    ((block.instance(rng), object), row)
}

pub(crate) fn state(rng: &mut Rng, rows: usize) -> State {
    let seq = 1 + rng.below(20) as u64;
    let mut state = State {
        seq,
        ..State::default()
    };
    for _ in 0..rows {
        let born = seq - rng.below(usize::try_from(seq).unwrap()) as u64;
        let (name, row) = self::row(rng, born);
        state.rows.insert(name, row);
    }
    state
}
