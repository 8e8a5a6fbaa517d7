//! The planted bugs: what is switched off, which clients and faults bring it out, and where it must show.

use chaos::check::{Invariant, Violation};
use chaos::plan::{Deed, Fault, FaultCounts, Plan, Profile};

use super::stage::SCALE;
use Invariant::{I1, I2, I3, I4, I5, I7, I8, I11, I12, I13, I14};

/// How long clients work while faults happen; where none do, so much longer in quiet.
pub(super) const STORM_MS: u64 = 7_000;

/// A planted bug.
pub(super) struct Tooth {
    /// The rule that does not hold.
    pub(super) name: &'static str,
    /// What is off in a round before, in which it must not show: nothing, or another rule without which there is an occasion
    /// to break this one, and which is then off, too.
    pub(super) control: Option<&'static str>,
    /// Where it must show, in any of them.
    shows: &'static [Invariant],
    /// What must be said of it, where the other one shows in the same place.
    says: &'static str,
    faults: FaultCounts,
    /// The one step at which replicas are to die.
    pub(super) step: Option<&'static str>,
    cast: Cast,
    /// By how much every time is divided.
    pub(super) scale: f64,
}

/// How many clients of each kind.
#[derive(Clone, Copy)]
struct Cast {
    native: usize,
    primitive: usize,
    terraform: usize,
    late: usize,
    queuers: usize,
    readers: usize,
}

/// Something of everything.
const ALL: Cast = Cast {
    native: 10,
    primitive: 3,
    terraform: 4,
    late: 2,
    queuers: 0,
    readers: 1,
};
/// Nobody.
const NOBODY: Cast = Cast {
    native: 0,
    primitive: 0,
    terraform: 0,
    late: 0,
    queuers: 0,
    readers: 0,
};
/// Those alone who lose what they hold, and write after others have.
const LATE: Cast = Cast { late: 4, ..NOBODY };
/// Two in each line, so that the machine is idle and waiting is the queue's doing.
const LINES: Cast = Cast {
    queuers: 10,
    ..NOBODY
};
/// Somebody holds something wherever an outage begins, and others wait for it when that is over.
const HOLDERS: Cast = Cast {
    native: 6,
    queuers: 10,
    ..NOBODY
};
/// Who ends runs.
const RUNS: Cast = Cast {
    native: 8,
    readers: 1,
    ..NOBODY
};

/// Nothing breaks.
const NONE: FaultCounts = FaultCounts {
    replica_kills: 0,
    replica_freezes: 0,
    service_freezes: 0,
    postgres_restarts: 0,
    redis_kills: 0,
    redis_flushes: 0,
    redis_evictions: 0,
    redis_promotions: 0,
    links: 0,
    crash_points: 0,
};
/// The index goes, again and again.
const NO_INDEX: FaultCounts = FaultCounts {
    redis_flushes: 20,
    redis_kills: 4,
    ..NONE
};
/// Processes die at steps.
const CRASHES: FaultCounts = FaultCounts {
    crash_points: 10,
    ..NONE
};
const OUTAGES: FaultCounts = FaultCounts {
    service_freezes: 3,
    ..NONE
};

impl Tooth {
    const fn new(name: &'static str, shows: &'static [Invariant]) -> Self {
        Self {
            name,
            control: None,
            shows,
            says: "",
            faults: NONE,
            step: None,
            cast: ALL,
            scale: SCALE,
        }
    }

    const fn under(mut self, faults: FaultCounts) -> Self {
        self.faults = faults;
        self
    }

    const fn with(mut self, cast: Cast) -> Self {
        self.cast = cast;
        self
    }

    /// One that must not show while everything else is the same and the rule holds.
    const fn with_control(mut self) -> Self {
        self.control = Some("");
        self
    }

    /// One that shows only where another is off, too.
    const fn behind(mut self, other: &'static str, says: &'static str) -> Self {
        self.control = Some(other);
        self.says = says;
        self
    }

    /// One that shows only where a replica dies at a certain step.
    const fn at_step(mut self, step: &'static str) -> Self {
        self.step = Some(step);
        self
    }

    const fn divided_by(mut self, scale: f64) -> Self {
        self.scale = scale;
        self
    }

    /// The rules that do not hold, separated by commas.
    pub(super) fn off(&self) -> String {
        match self.control.unwrap_or_default() {
            "" => self.name.to_owned(),
            other => format!("{other},{}", self.name),
        }
    }

    /// What a round does.
    pub(super) fn plan(&self, seed: u64, prefix: &str) -> Plan {
        let cast = self.cast;
        let profile = Profile {
            name: self.name.to_owned(),
            storm_ms: STORM_MS,
            operations: 0,
            counts: self.faults,
            liar_ms: 0,
            lies: 0,
            native: cast.native,
            primitive: cast.primitive,
            terraform: cast.terraform,
            late: cast.late,
            queuers: cast.queuers,
            readers: cast.readers,
            drills: false,
        };
        let mut plan = Plan::draw(seed, profile, prefix);
        if self.step.is_some() {
            plan.faults.iter_mut().flatten().for_each(die_at_once);
        }
        plan
    }

    /// The contradiction that gives it away, if there is one.
    pub(super) fn shown(&self, violations: Vec<Violation>) -> Option<Violation> {
        let mut violations = violations.into_iter();
        violations.find(|it| self.shows.contains(&it.invariant) && it.what.contains(self.says))
    }
}

/// Dies at the next pass, and does nothing else.
fn die_at_once(fault: &mut Fault) {
    if let Fault::CrashPoint { deed, after, .. } = fault {
        (*deed, *after) = (Deed::Abort, 0);
    }
}

/// A link of a chain of values that does not fit: somebody wrote over what it had not seen.
const UNSEEN: &str = "but its writer saw";

pub(super) const TEETH: [Tooth; 18] = [
    Tooth::new("ledger_check", &[I1]).under(NO_INDEX),
    Tooth::new("liveness", &[I4, I8]),
    Tooth::new("version_check", &[I4])
        .behind("liveness", UNSEEN)
        .with(LATE),
    Tooth::new("receipts", &[I4, I7]),
    Tooth::new("kept_results", &[I8]),
    Tooth::new("unsettled_marks", &[I8]),
    Tooth::new("idem_key", &[I2, I7]),
    Tooth::new("token_rise", &[I3]),
    Tooth::new("lock_delay", &[I13]),
    Tooth::new("grace", &[I13]).under(OUTAGES).with(HOLDERS),
    Tooth::new("write_cover", &[I4]),
    Tooth::new("queue_order", &[I11]),
    // A long wait is then longer than anything else that takes time.
    Tooth::new("wake", &[I12])
        .with(LINES)
        .divided_by(10.0)
        .with_control(),
    Tooth::new("http_version_check", &[I4])
        .behind("liveness", UNSEEN)
        .with(LATE),
    Tooth::new("end_index", &[I12, I14]),
    Tooth::new("atomic_end", &[I2])
        .under(CRASHES)
        .with(RUNS)
        .at_step("release.before")
        .with_control(),
    Tooth::new("mixed_lanes", &[I1]),
    Tooth::new("late_duplicates", &[I4, I5]),
];

/// The rules of the day: others each day, so that all have their turn.
pub(super) fn of_day(day: usize, count: usize) -> Vec<&'static Tooth> {
    let turn = (0..count).map(|step| &TEETH[(day * count + step) % TEETH.len()]);
    turn.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rule_has_its_day() {
        let days = (0..9).flat_map(|day| of_day(20_000 + day, 2));
        let named: BTreeSet<_> = days.map(|tooth| tooth.name).collect();
        assert_eq!(named.len(), TEETH.len());
    }
}
