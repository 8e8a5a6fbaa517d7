//! What two runs of one plan have in common, whatever the machine made of it.

use std::collections::BTreeMap;

use crate::history::{Call, Entry, Event};

/// What a replay came to, held against the run that it repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alike {
    pub clients: usize,
    pub faults: usize,
    /// What is not the same, in words.
    pub differences: Vec<String>,
}

impl Alike {
    /// Holds two histories against each other: all faults must have happened in both, and every client must have begun with
    /// the same operation. What follows depends on answers, and those on what met what.
    #[must_use]
    pub fn of(earlier: &[Entry], later: &[Entry]) -> Self {
        let mut differences = Vec::new();
        let (first, second) = (beginnings(earlier), beginnings(later));
        for (client, call) in &first {
            if second.get(client) != Some(call) {
                differences.push(format!("{client} began with something else"));
            }
        }
        if second.len() > first.len() {
            differences.push("there are other clients".to_owned());
        }
        let (faults, again) = (faults(earlier), faults(later));
        for (fault, times) in &faults {
            let again = again.get(fault).copied().unwrap_or_default();
            if again != *times {
                differences.push(format!(
                    "{} ({}): {times} times, then {again}",
                    fault.0, fault.1
                ));
            }
        }
        if again.keys().any(|fault| !faults.contains_key(fault)) {
            differences.push("there are other faults".to_owned());
        }
        Self {
            clients: first.len(),
            faults: faults.values().sum(),
            differences,
        }
    }
}

/// The first operation of each client.
fn beginnings(history: &[Entry]) -> BTreeMap<&str, &Call> {
    let mut first = BTreeMap::new();
    for entry in history {
        if let Event::Invoke { client, call, .. } = &entry.event {
            first.entry(client.as_str()).or_insert(call);
        }
    }
    first
}

/// How often each fault began. Two rows of them happen at once, so their order is that of each row alone.
fn faults(history: &[Entry]) -> BTreeMap<(&str, &str), usize> {
    let mut found = BTreeMap::new();
    for entry in history {
        if let Event::Fault { kind, what, .. } = &entry.event {
            *found.entry((kind.as_str(), what.as_str())).or_default() += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(event: Event) -> Entry {
        Entry {
            at_us: 0,
            wall_us: 0,
            event,
        }
    }

    fn read(op: u64, client: &str, state: &str) -> Entry {
        entry(Event::Invoke {
            op,
            client: client.to_owned(),
            call: Call::Read {
                state: state.to_owned(),
            },
        })
    }

    fn fault(number: u32, what: &str) -> Entry {
        entry(Event::Fault {
            number,
            kind: "link cut".to_owned(),
            what: what.to_owned(),
        })
    }

    #[test]
    fn the_order_between_clients_and_between_rows_is_no_difference() {
        let one = [
            read(1, "a", "s0"),
            fault(1, "x"),
            read(2, "b", "s1"),
            fault(2, "y"),
        ];
        let other = [
            fault(1, "y"),
            read(1, "b", "s1"),
            read(2, "a", "s0"),
            fault(2, "x"),
        ];
        let alike = Alike::of(&one, &other);
        assert_eq!((alike.clients, alike.faults), (2, 2));
        assert_eq!(alike.differences, [""; 0]);
    }

    #[test]
    fn another_beginning_and_another_fault_are_differences() {
        let one = [read(1, "a", "s0"), fault(1, "x")];
        let other = [read(1, "a", "s1"), fault(1, "x"), fault(2, "x")];
        assert_eq!(Alike::of(&one, &other).differences.len(), 2);
        let more = [read(1, "a", "s0"), read(2, "b", "s0"), fault(1, "z")];
        assert_eq!(Alike::of(&one, &more).differences.len(), 3);
    }
}
