//! What a liar has overheard: its lies are made of words that were true somewhere else.

use std::collections::BTreeMap;

use super::ENDED;
use super::question::Question;

/// So much is remembered of each.
const ENOUGH: usize = 64;

#[derive(Default)]
pub(super) struct Memory {
    scripts: BTreeMap<String, Question>,
    /// When each state was last asked for, counted in questions, by its name as channels have it.
    states: BTreeMap<String, u64>,
    questions: u64,
    /// What holders and waiters said of themselves.
    abouts: Vec<String>,
    gens: Vec<String>,
}

impl Memory {
    pub(super) fn learn(&mut self, hash: &str, question: Question) {
        self.scripts.insert(hash.to_owned(), question);
    }

    pub(super) fn question(&self, hash: &str) -> Option<Question> {
        self.scripts.get(hash).copied()
    }

    pub(super) fn overhear(&mut self, question: Question, keys: &[String], arguments: &[String]) {
        let state = keys.first().and_then(|key| key.strip_suffix(":meta"));
        if question == Question::Admit
            && let Some(state) = state
        {
            self.questions += 1;
            self.states.insert(state.to_owned(), self.questions);
        }
        // By their places in the first lines of the scripts.
        let (about, number) = match question {
            Question::Admit => (arguments.get(7), None),
            Question::Confirm => (arguments.get(5), arguments.get(3)),
            Question::Load => (None, arguments.get(1)),
            _ => (None, None),
        };
        if let Some(about) = about {
            keep(&mut self.abouts, about);
        }
        if let Some(number) = number {
            keep(&mut self.gens, number);
        }
    }

    /// The channels of the states that somebody asked for after so many questions, and how many questions there were by now.
    pub(super) fn waited_for_since(&self, questions: u64) -> (Vec<String>, u64) {
        let asked = self.states.iter().filter(|(_, at)| **at > questions);
        let channels = asked.map(|(state, _)| format!("{state}{ENDED}"));
        (channels.collect(), self.questions)
    }

    /// A gen that was once true of some state.
    pub(super) fn any_gen(&self, draw: &dyn Fn(u32) -> u32) -> String {
        any(&self.gens, draw).unwrap_or_else(|| "0".to_owned())
    }

    /// Somebody who waits or holds something somewhere.
    pub(super) fn anybody(&self, draw: &dyn Fn(u32) -> u32) -> String {
        any(&self.abouts, draw).unwrap_or_default()
    }
}

fn any(of: &[String], draw: &dyn Fn(u32) -> u32) -> Option<String> {
    let count = u32::try_from(of.len()).ok().filter(|count| *count > 0)?;
    of.get(draw(count) as usize).cloned()
}

fn keep(into: &mut Vec<String>, what: &str) {
    if into.len() >= ENOUGH {
        into.remove(0);
    }
    into.push(what.to_owned());
}
