//! What a liar says: words that the scripts might say, with numbers and names that it has overheard somewhere else.

use std::collections::BTreeMap;

use super::resp::Value;

/// The scripts of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    Admit,
    Confirm,
    End,
    Load,
    Waiting,
    Leave,
    /// One that this harness does not know: it gets no sense at all.
    Other,
}

impl Script {
    /// Each says its name in its first comment.
    pub(super) fn of(text: &str) -> Self {
        let is = |name: &str| {
            text.lines().any(|line| {
                line.strip_prefix("-- ")
                    .and_then(|rest| rest.split(' ').next())
                    == Some(name)
            })
        };
        let known = [
            ("ADMIT", Self::Admit),
            ("CONFIRM", Self::Confirm),
            ("END", Self::End),
            ("LOAD", Self::Load),
            ("WAITING", Self::Waiting),
            ("LEAVE", Self::Leave),
        ];
        let found = known.into_iter().find(|(name, _)| is(name));
        found.map_or(Self::Other, |(_, script)| script)
    }
}

/// What was overheard.
#[derive(Default)]
pub(super) struct Memory {
    scripts: BTreeMap<String, Script>,
    /// The states' names, as channels have them.
    states: Vec<String>,
    /// What holders and waiters said of themselves.
    abouts: Vec<String>,
    gens: Vec<String>,
}

/// So much is remembered of each.
const ENOUGH: usize = 64;

impl Memory {
    pub(super) fn learn(&mut self, hash: &str, script: Script) {
        self.scripts.insert(hash.to_owned(), script);
    }

    pub(super) fn script(&self, hash: &str) -> Option<Script> {
        self.scripts.get(hash).copied()
    }

    pub(super) fn overhear(&mut self, script: Script, keys: &[String], arguments: &[String]) {
        let state = keys.first().and_then(|key| key.strip_suffix(":meta"));
        if let Some(state) = state
            && !self.states.iter().any(|known| known == state)
        {
            keep(&mut self.states, state);
        }
        match script {
            Script::Admit => arguments
                .last()
                .into_iter()
                .for_each(|about| keep(&mut self.abouts, about)),
            Script::Confirm => {
                arguments
                    .get(5)
                    .into_iter()
                    .for_each(|about| keep(&mut self.abouts, about));
                arguments
                    .get(3)
                    .into_iter()
                    .for_each(|number| keep(&mut self.gens, number));
            }
            Script::Load => arguments
                .get(1)
                .into_iter()
                .for_each(|number| keep(&mut self.gens, number)),
            _ => {}
        }
    }

    /// The channels of all states.
    pub(super) fn channels(&self) -> Vec<String> {
        self.states
            .iter()
            .map(|state| format!("{state}:ended"))
            .collect()
    }

    /// An answer that the script might give.
    pub(super) fn answer(
        &self,
        script: Script,
        _keys: &[String],
        draw: impl Fn(u32) -> u32,
    ) -> Value {
        let words = |words: &[&str]| Value::texts(words.iter().map(|word| (*word).to_owned()));
        match script {
            Script::Admit => self.admission(draw),
            Script::Confirm | Script::End => match draw(4) {
                0 => words(&["REBUILD"]),
                _ => words(&["OK"]),
            },
            Script::Load => match draw(10) {
                0 => words(&["NEWER"]),
                1..5 => words(&["KEPT"]),
                _ => words(&["LOADED"]),
            },
            Script::Waiting => self.waiters(draw),
            Script::Leave => Value::Integer(i64::from(draw(2))),
            Script::Other => words(&["OK"]),
        }
    }

    fn admission(&self, draw: impl Fn(u32) -> u32) -> Value {
        let known_gen = self
            .any(&self.gens, &draw)
            .unwrap_or_else(|| "0".to_owned());
        match draw(200) {
            0..2 => Value::texts(["REBUILD".to_owned()]),
            2..6 => Value::texts(["ADMITTED".to_owned(), known_gen]),
            _ => {
                let since = match draw(3) {
                    0 => "1".to_owned(),
                    1 => "1764000000123".to_owned(),
                    _ => "99999999999999".to_owned(),
                };
                let mut answer = vec![
                    "WAIT".to_owned(),
                    known_gen,
                    since,
                    draw(9).to_string(),
                    (1 + draw(5)).to_string(),
                ];
                // Somebody, of this state or another.
                let holders = draw(3);
                answer.extend((0..holders).filter_map(|_| self.any(&self.abouts, &draw)));
                Value::texts(answer)
            }
        }
    }

    fn waiters(&self, draw: impl Fn(u32) -> u32) -> Value {
        let mut answer = Vec::new();
        for _ in 0..draw(4) {
            let about = self.any(&self.abouts, &draw).unwrap_or_default();
            answer.extend(["who".to_owned(), "5".to_owned(), "7".to_owned(), about]);
        }
        Value::texts(answer)
    }

    fn any(&self, of: &[String], draw: impl Fn(u32) -> u32) -> Option<String> {
        let count = u32::try_from(of.len()).ok().filter(|count| *count > 0)?;
        of.get(draw(count) as usize).cloned()
    }
}

fn keep(into: &mut Vec<String>, what: &str) {
    if into.len() >= ENOUGH {
        into.remove(0);
    }
    into.push(what.to_owned());
}

/// The keys and the arguments of an EVAL or EVALSHA.
pub(super) fn parts(command: &[String]) -> (&[String], &[String]) {
    let count = command
        .get(2)
        .and_then(|count| count.parse().ok())
        .unwrap_or(0);
    let rest = command.get(3..).unwrap_or_default();
    rest.split_at(rest.len().min(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_known_by_their_names() {
        assert_eq!(
            Script::of("-- What all scripts share.\nlocal x\n-- ADMIT incarnation key nodes\n--\n"),
            Script::Admit
        );
        assert_eq!(Script::of("-- WAITING\n--\n"), Script::Waiting);
        assert_eq!(Script::of("return 1"), Script::Other);
    }

    #[test]
    fn the_parts_of_a_call_are_told_apart() {
        let command: Vec<String> = ["EVALSHA", "x", "2", "k1", "k2", "a"]
            .map(str::to_owned)
            .into();
        let (keys, arguments) = parts(&command);
        assert_eq!((keys.len(), arguments), (2, &["a".to_owned()][..]));
    }
}
