//! What the index is asked, as it is known by its words on the wire.

/// A question, or something to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    Admit,
    Confirm,
    End,
    Load,
    Waiting,
    Leave,
    Forget,
    /// Up to where the index knows everything.
    Mark,
    /// A script that this harness does not know: it gets the truth.
    Other,
}

impl Question {
    /// Each script says its name in its first comment.
    pub(super) fn of_script(text: &str) -> Self {
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
            ("FORGET", Self::Forget),
        ];
        let found = known.into_iter().find(|(name, _)| is(name));
        found.map_or(Self::Other, |(_, question)| question)
    }
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
        let text = "-- What all scripts share.\nlocal x\n-- ADMIT incarnation key nodes\n--\n";
        assert_eq!(Question::of_script(text), Question::Admit);
        assert_eq!(Question::of_script("-- WAITING\n--\n"), Question::Waiting);
        assert_eq!(Question::of_script("return 1"), Question::Other);
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
