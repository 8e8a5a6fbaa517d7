//! What a run does, all of it drawn from one seed: its states, its clients and its faults.
//!
//! The same seed gives the same clients with the same draws and the same faults in the same order. What the machine makes of
//! them (which request meets which fault) differs from run to run, as it does anywhere with more than one process.

mod faults;

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

pub use faults::{Deed, Fault, FaultCounts, Link, Trouble};

/// How long and how hard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    pub name: String,
    /// How long clients work while faults happen, at least; it ends when the faults have happened.
    pub storm_ms: u64,
    /// The calm goes on until so many operations have ended in all, if the machine is not too slow for that.
    pub operations: u64,
    /// How often each kind of fault happens.
    pub counts: FaultCounts,
    /// How long clients work before a liar, at most; so many lies are enough. None at all: that part is left out.
    pub liar_ms: u64,
    pub lies: u64,
    /// How many clients of each kind.
    pub native: usize,
    pub primitive: usize,
    pub terraform: usize,
    pub late: usize,
    #[serde(default)]
    pub queuers: usize,
    pub readers: usize,
    /// Whether restarts are measured one by one.
    pub drills: bool,
}

impl Profile {
    /// The profile of the name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let quick = Self {
            name: name.to_owned(),
            storm_ms: 60_000,
            operations: 21_000,
            counts: FaultCounts {
                replica_kills: 14,
                replica_freezes: 14,
                service_freezes: 2,
                postgres_restarts: 6,
                redis_kills: 8,
                redis_flushes: 24,
                redis_evictions: 3,
                redis_promotions: 4,
                links: 48,
                crash_points: 40,
            },
            liar_ms: 90_000,
            lies: 101_000,
            native: 10,
            primitive: 3,
            terraform: 4,
            late: 4,
            queuers: 0,
            readers: 5,
            drills: true,
        };
        match name {
            "quick" => Some(quick),
            // As long as one likes to wait: the quick one five times over.
            "long" => Some(Self {
                storm_ms: 300_000,
                operations: 105_000,
                counts: quick.counts.times(5),
                liar_ms: 240_000,
                lies: 500_000,
                ..quick
            }),
            // Enough to see that everything turns.
            "smoke" => Some(Self {
                storm_ms: 5_000,
                operations: 0,
                counts: FaultCounts {
                    replica_kills: 1,
                    replica_freezes: 1,
                    redis_kills: 1,
                    redis_flushes: 2,
                    links: 3,
                    crash_points: 2,
                    ..FaultCounts::default()
                },
                liar_ms: 0,
                drills: false,
                ..quick
            }),
            _ => None,
        }
    }
}

/// A state and its addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatePlan {
    pub name: String,
    pub addresses: Vec<String>,
}

/// A kind of client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Runs on slices.
    Native,
    /// The state engine's primitives.
    Primitive,
    /// The http backend.
    Terraform,
    /// Loses what it holds before it writes.
    Late,
    /// Stands in line with others for the same.
    Queuer,
    Reader,
}

/// A client, its own draws, and the states it works on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientPlan {
    pub name: String,
    pub role: Role,
    pub seed: u64,
    pub states: Vec<usize>,
}

/// Everything that a run does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub seed: u64,
    pub profile: Profile,
    pub states: Vec<StatePlan>,
    pub clients: Vec<ClientPlan>,
    /// Two rows of faults, each one after the other: processes, and everything else.
    pub faults: [Vec<Fault>; 2],
}

/// States that all kinds of clients share, and those of the late ones.
const SHARED: usize = 5;
const FENCED: usize = 4;
pub const REPLICAS: usize = 3;
/// What begins the names of the states of the part before a liar.
pub const LIARS: &str = "liar-";
/// Clients reach the balancer by so many links.
pub const CLIENT_LINKS: usize = 2;

impl Plan {
    /// Draws a plan. `prefix` begins the names of its states.
    #[must_use]
    pub fn draw(seed: u64, profile: Profile, prefix: &str) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let states = (0..SHARED + FENCED)
            .map(|number| StatePlan {
                name: format!("{prefix}s{number}"),
                addresses: addresses(),
            })
            .collect();
        let clients = clients(&mut rng, &profile);
        let faults = faults::faults(&mut rng, &profile.counts);
        Self {
            seed,
            profile,
            states,
            clients,
            faults,
        }
    }

    /// Whether it is the part of a run before a liar.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.states
            .iter()
            .any(|state| state.name.starts_with(LIARS))
    }

    /// How many faults it has.
    #[must_use]
    pub fn fault_count(&self) -> usize {
        self.faults.iter().map(Vec::len).sum()
    }
}

fn addresses() -> Vec<String> {
    let root = (0..8).map(|number| format!("terraform_data.a{number}"));
    let module = (0..4).map(|number| format!("module.m.terraform_data.b{number}"));
    root.chain(module).collect()
}

fn clients(rng: &mut StdRng, profile: &Profile) -> Vec<ClientPlan> {
    let shared: Vec<usize> = (0..SHARED).collect();
    let mut clients = Vec::new();
    let mut add = |role, letter: &str, count: usize, states: &dyn Fn(usize) -> Vec<usize>| {
        for number in 0..count {
            clients.push(ClientPlan {
                name: format!("{letter}{number}"),
                role,
                seed: rng.random(),
                states: states(number),
            });
        }
    };
    // Most of them meet in the first states; the last is for Terraform and those who would share it.
    add(Role::Native, "n", profile.native, &|number| {
        vec![number % 2, number % 2, (number + 2) % SHARED]
    });
    add(Role::Primitive, "p", profile.primitive, &|number| {
        vec![1 + number % 3, 2]
    });
    add(Role::Terraform, "t", profile.terraform, &|number| {
        vec![3, 4, number % SHARED]
    });
    add(Role::Late, "l", profile.late, &|number| {
        vec![SHARED + number % FENCED]
    });
    add(Role::Queuer, "q", profile.queuers, &|number| {
        vec![number % SHARED]
    });
    add(Role::Reader, "r", profile.readers, &|_| shared.clone());
    clients
}

/// Every time of the protocol, scaled alike.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Times {
    pub scale: f64,
}

impl Times {
    /// A time of the protocol as it is here.
    #[must_use]
    pub fn seconds(self, seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds / self.scale)
    }

    #[must_use]
    pub fn lease(self) -> Duration {
        self.seconds(60.0)
    }

    #[must_use]
    pub fn lock_delay(self) -> Duration {
        self.seconds(15.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_is_one_plan() {
        let quick = || Profile::named("quick").unwrap();
        let plan = Plan::draw(7, quick(), "");
        assert_eq!(plan, Plan::draw(7, quick(), ""));
        assert_ne!(plan.faults, Plan::draw(8, quick(), "").faults);
        assert!(plan.fault_count() >= 150, "{}", plan.fault_count());
    }

    #[test]
    fn a_plan_is_read_back_as_it_was_written_down() {
        for name in ["quick", "long", "smoke"] {
            let plan = Plan::draw(7, Profile::named(name).unwrap(), "");
            let text = serde_json::to_string(&plan).unwrap();
            assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
            assert!(!plan.is_part());
        }
    }
}
