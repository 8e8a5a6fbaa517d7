//! Lies: other words of the same form than the truth, so that who asked has no reason to doubt them.

use super::memory::Memory;
use super::question::Question;
use super::resp::Value;

/// A kind of lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lie {
    /// Let through, although a part is held or somebody waits in front.
    Admitted,
    /// Turned away, although all is free.
    TurnedAway,
    /// Has to wait, and that as another, behind others, for other holders, or since another time.
    OtherPlace,
    /// Let through, and that by an index that knows more or less than it does.
    OtherGen,
    /// The table is lost, although it is there.
    Lost,
    /// An answer out of a table that is not there.
    MadeUp,
    /// A grant is noted, and is not.
    GrantKeptBack,
    /// An end is noted, and is not: what has ended is still in the way.
    EndKeptBack,
    /// The table is loaded, and is as it was.
    LoadKeptBack,
    /// A place is given back, and is not.
    LeaveKeptBack,
    /// Something was done, and is said to have come out otherwise.
    OtherOutcome,
    /// The audit is told that the index knows more or less than it does, or has no table.
    OtherMark,
    /// Somebody else waits.
    OtherWaiters,
    /// A snapshot is kept, and is thrown away.
    SnapshotDropped,
}

impl Lie {
    pub const ALL: [Self; 14] = [
        Self::Admitted,
        Self::TurnedAway,
        Self::OtherPlace,
        Self::OtherGen,
        Self::Lost,
        Self::MadeUp,
        Self::GrantKeptBack,
        Self::EndKeptBack,
        Self::LoadKeptBack,
        Self::LeaveKeptBack,
        Self::OtherOutcome,
        Self::OtherMark,
        Self::OtherWaiters,
        Self::SnapshotDropped,
    ];

    /// The lie, for people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Admitted => "let through, although something is in the way",
            Self::TurnedAway => "turned away, although nothing is in the way",
            Self::OtherPlace => "another place in the queue",
            Self::OtherGen => "let through by a table that knows another gen",
            Self::Lost => "a table said to be lost",
            Self::MadeUp => "an answer out of a table that is not there",
            Self::GrantKeptBack => "a grant said to be noted",
            Self::EndKeptBack => "an end said to be noted",
            Self::LoadKeptBack => "a table said to be loaded",
            Self::LeaveKeptBack => "a place said to be given back",
            Self::OtherOutcome => "another outcome of what was done",
            Self::OtherMark => "another mark for the audit",
            Self::OtherWaiters => "other waiters",
            Self::SnapshotDropped => "a snapshot said to be kept",
        }
    }
}

/// A lie with its words.
pub(super) type Told = (Lie, Value);

/// What the truth is replaced with: something that is drawn from what was overheard.
pub(super) struct Tongue<'a> {
    pub(super) memory: &'a Memory,
    pub(super) draw: &'a dyn Fn(u32) -> u32,
}

/// How many of a hundred grants, ends, loads and leaves are not passed on.
const KEPT_BACK: u32 = 40;

impl Tongue<'_> {
    /// What is said to be done without doing it.
    pub(super) fn kept_back(&self, question: Question) -> Option<Told> {
        let told = match question {
            Question::Confirm => (Lie::GrantKeptBack, words(&["OK"])),
            Question::End => (Lie::EndKeptBack, words(&["OK"])),
            Question::Load => (Lie::LoadKeptBack, words(&["LOADED"])),
            Question::Leave => (Lie::LeaveKeptBack, Value::Integer(1)),
            _ => return None,
        };
        (self.draw(100) < KEPT_BACK).then_some(told)
    }

    /// What is said instead of this truth; `None` where that is told for once.
    pub(super) fn instead(&self, question: Question, truth: &Value) -> Option<Told> {
        let told = match question {
            Question::Admit => self.admission(truth),
            Question::Confirm | Question::End => {
                (self.draw(4) == 0).then(|| (Lie::OtherOutcome, words(&["REBUILD"])))
            }
            Question::Load => self.load(),
            Question::Waiting => Some((Lie::OtherWaiters, self.waiters())),
            Question::Leave | Question::Forget => match truth {
                Value::Integer(number) => Some((Lie::OtherOutcome, Value::Integer(1 - number))),
                _ => None,
            },
            Question::Mark => Some((Lie::OtherMark, self.mark(truth))),
            Question::Other => None,
        };
        told.filter(|(_, said)| said != truth)
    }

    /// Few are let through, whether something is in the way or not: each of those costs the ledger a transaction.
    fn admission(&self, truth: &Value) -> Option<Told> {
        let truth = truth.as_texts()?;
        let dice = self.draw(100);
        match (truth.as_slice(), dice) {
            (["REBUILD"], 0..50) => Some((Lie::MadeUp, self.place())),
            (["WAIT", ..], 0..2) => Some((Lie::Admitted, self.admitted())),
            (["WAIT", ..], 2) => Some((Lie::Lost, words(&["REBUILD"]))),
            (["WAIT", ..], 4..) => Some((Lie::OtherPlace, self.place())),
            (["ADMITTED", ..], 0..4) => Some((Lie::Lost, words(&["REBUILD"]))),
            (["ADMITTED", ..], 4..10) => Some((Lie::OtherGen, self.admitted())),
            (["ADMITTED", ..], 12..) => Some((Lie::TurnedAway, self.place())),
            _ => None,
        }
    }

    fn admitted(&self) -> Value {
        Value::texts(["ADMITTED".to_owned(), self.known_gen()])
    }

    /// A gen that was true of some state at some time, or one that no ledger has come to: who is told that looks no further.
    fn known_gen(&self) -> String {
        match self.draw(4) {
            0 => self.memory.any_gen(self.draw),
            _ => (1_000_000 + self.draw(1_000)).to_string(),
        }
    }

    /// A place of anybody's anywhere.
    fn place(&self) -> Value {
        let since = ["1", "1764000000123", "99999999999999"][self.draw(3) as usize];
        let mut answer = vec![
            "WAIT".to_owned(),
            self.known_gen(),
            since.to_owned(),
            self.draw(900).to_string(),
            self.draw(6).to_string(),
        ];
        answer.extend((0..self.draw(3)).map(|_| self.memory.anybody(self.draw)));
        Value::texts(answer)
    }

    fn load(&self) -> Option<Told> {
        let said = match self.draw(10) {
            0 => "NEWER",
            1..5 => "KEPT",
            5..8 => "LOADED",
            _ => return None,
        };
        Some((Lie::OtherOutcome, words(&[said])))
    }

    fn waiters(&self) -> Value {
        let waiters = (0..self.draw(4)).flat_map(|_| {
            let about = self.memory.anybody(self.draw);
            ["who".to_owned(), "5".to_owned(), "7".to_owned(), about]
        });
        Value::texts(waiters)
    }

    fn mark(&self, truth: &Value) -> Value {
        let number = |at: usize| -> i64 {
            let texts = truth.as_texts().unwrap_or_default();
            let text = texts.get(at).and_then(|text| text.parse().ok());
            text.unwrap_or_default()
        };
        let (incarnation, known_gen) = (number(0), number(1));
        let (incarnation, known_gen) = match self.draw(10) {
            0..4 => return Value::Array(vec![Value::Nil, Value::Nil]),
            4..6 => (incarnation, known_gen + 1_000),
            6..8 => (incarnation, known_gen - 1),
            8 => (incarnation + 1, known_gen),
            _ => (incarnation - 1, known_gen),
        };
        Value::texts([incarnation.to_string(), known_gen.to_string()])
    }

    fn draw(&self, below: u32) -> u32 {
        (self.draw)(below)
    }
}

fn words(words: &[&str]) -> Value {
    Value::texts(words.iter().map(|word| (*word).to_owned()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;

    use super::*;

    /// Every number below each bound in turn.
    fn counting() -> impl Fn(u32) -> u32 {
        let next = Cell::new(0u32);
        move |below| {
            next.set(next.get() + 1);
            (next.get() * 7 + next.get() / below) % below
        }
    }

    #[test]
    fn what_is_told_is_another_answer_of_the_same_form() {
        let (memory, draw) = (Memory::default(), counting());
        let tongue = Tongue {
            memory: &memory,
            draw: &draw,
        };
        let truths = [
            (Question::Admit, words(&["REBUILD"])),
            (Question::Admit, words(&["ADMITTED", "7"])),
            (Question::Admit, words(&["WAIT", "7", "5", "1", "2", "who"])),
            (Question::Load, words(&["KEPT"])),
            (Question::Leave, Value::Integer(1)),
            (Question::Mark, words(&["1", "7"])),
            (Question::Waiting, words(&[])),
        ];
        let mut seen = BTreeSet::new();
        for (question, truth) in &truths {
            for _ in 0..1_000 {
                let Some((lie, said)) = tongue.instead(*question, truth) else {
                    continue;
                };
                assert_ne!(said, *truth);
                seen.insert(lie);
                if *question == Question::Admit {
                    let said = said.as_texts().unwrap();
                    let is_formed = match said.as_slice() {
                        ["REBUILD"] => true,
                        ["ADMITTED", known_gen] => known_gen.parse::<i64>().is_ok(),
                        ["WAIT", rest @ ..] => {
                            rest.len() >= 4
                                && rest[..4].iter().all(|part| part.parse::<u64>().is_ok())
                        }
                        _ => false,
                    };
                    assert!(is_formed, "{said:?}");
                }
            }
        }
        for lie in [
            Lie::Admitted,
            Lie::TurnedAway,
            Lie::OtherPlace,
            Lie::OtherMark,
            Lie::Lost,
        ] {
            assert!(seen.contains(&lie), "{lie:?}");
        }
    }

    #[test]
    fn what_is_kept_back_is_said_to_be_done() {
        let (memory, draw) = (Memory::default(), |_| 0);
        let tongue = Tongue {
            memory: &memory,
            draw: &draw,
        };
        let told = tongue.kept_back(Question::End);
        assert_eq!(told, Some((Lie::EndKeptBack, words(&["OK"]))));
        assert_eq!(tongue.kept_back(Question::Admit), None);
    }
}
