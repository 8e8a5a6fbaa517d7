//! What breaks: kinds of faults, and how they are drawn.

use rand::RngExt as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};

use super::{CLIENT_LINKS, REPLICAS};

/// How often each kind of fault happens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultCounts {
    pub replica_kills: u32,
    pub replica_freezes: u32,
    pub service_freezes: u32,
    pub postgres_restarts: u32,
    pub redis_kills: u32,
    pub redis_flushes: u32,
    pub redis_evictions: u32,
    pub redis_promotions: u32,
    pub links: u32,
    pub crash_points: u32,
}

impl FaultCounts {
    pub(super) fn times(self, factor: u32) -> Self {
        Self {
            replica_kills: self.replica_kills * factor,
            replica_freezes: self.replica_freezes * factor,
            service_freezes: self.service_freezes * factor,
            postgres_restarts: self.postgres_restarts * factor,
            redis_kills: self.redis_kills * factor,
            redis_flushes: self.redis_flushes * factor,
            redis_evictions: self.redis_evictions * factor,
            redis_promotions: self.redis_promotions * factor,
            links: self.links * factor,
            crash_points: self.crash_points * factor,
        }
    }
}

/// Something that breaks, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fault {
    /// SIGKILL; the replica is started again afterwards.
    KillReplica {
        replica: usize,
        down_ms: u64,
    },
    /// SIGSTOP, SIGCONT.
    FreezeReplica {
        replica: usize,
        ms: u64,
    },
    /// All replicas at once: nobody can renew.
    FreezeService {
        ms: u64,
    },
    /// Immediate shutdown, and a recovery from the log.
    RestartPostgres {
        down_ms: u64,
    },
    /// SIGKILL; it comes back empty.
    KillRedis {
        down_ms: u64,
    },
    FlushRedis,
    /// A policy that lets it drop keys, and little memory.
    EvictRedis {
        ms: u64,
    },
    /// Its replica takes over, with whatever it has.
    PromoteRedis,
    Link {
        link: Link,
        trouble: Trouble,
        ms: u64,
    },
    /// At one of the numbered steps of the protocol, by its place in the list that the replica gives.
    CrashPoint {
        replica: usize,
        point: u32,
        deed: Deed,
        after: u32,
        ms: u64,
    },
}

/// A connection that goes through a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// From a replica to Redis.
    Redis(usize),
    /// From a replica to Postgres.
    Postgres(usize),
    /// From some of the clients to the balancer.
    Clients(usize),
}

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// Connections break, and new ones are not taken.
    Cut,
    /// Every piece of data comes late.
    Delay { ms: u64 },
    /// The server is told that its client has said everything; its answers still pass.
    HalfClose,
    /// Connections stay, and nothing passes.
    Blackhole,
}

/// What happens at a crash point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deed {
    Abort,
    Pause { ms: u64 },
    Error,
}

impl Fault {
    /// Its kind, for tables.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::KillReplica { .. } => "replica killed",
            Self::FreezeReplica { .. } => "replica frozen",
            Self::FreezeService { .. } => "all replicas frozen",
            Self::RestartPostgres { .. } => "Postgres restarted",
            Self::KillRedis { .. } => "Redis killed",
            Self::FlushRedis => "Redis flushed",
            Self::EvictRedis { .. } => "Redis evicting",
            Self::PromoteRedis => "Redis replica promoted",
            Self::Link { trouble, .. } => match trouble {
                Trouble::Cut => "link cut",
                Trouble::Delay { .. } => "link slow",
                Trouble::HalfClose => "link half closed",
                Trouble::Blackhole => "link silent",
            },
            Self::CrashPoint { deed, .. } => match deed {
                Deed::Abort => "crash at a step",
                Deed::Pause { .. } => "pause at a step",
                Deed::Error => "error at a step",
            },
        }
    }
}

/// Both rows of a plan, shuffled: faults of processes, and all others.
pub(super) fn faults(rng: &mut StdRng, counts: &FaultCounts) -> [Vec<Fault>; 2] {
    let mut processes = Vec::new();
    let mut others = Vec::new();
    for _ in 0..counts.replica_kills {
        let down_ms = rng.random_range(0..600);
        processes.push(Fault::KillReplica {
            replica: rng.random_range(0..REPLICAS),
            down_ms,
        });
    }
    for _ in 0..counts.replica_freezes {
        processes.push(Fault::FreezeReplica {
            replica: rng.random_range(0..REPLICAS),
            ms: rng.random_range(200..2_600),
        });
    }
    for _ in 0..counts.service_freezes {
        // Longer than a lease and the lock delay: without the grace period, it would cost everybody theirs.
        processes.push(Fault::FreezeService {
            ms: rng.random_range(2_800..3_400),
        });
    }
    for _ in 0..counts.postgres_restarts {
        let down_ms = rng.random_range(0..900);
        processes.push(Fault::RestartPostgres { down_ms });
    }
    for _ in 0..counts.redis_kills {
        let down_ms = rng.random_range(0..700);
        processes.push(Fault::KillRedis { down_ms });
    }
    for _ in 0..counts.redis_evictions {
        let ms = rng.random_range(500..1_500);
        processes.push(Fault::EvictRedis { ms });
    }
    for _ in 0..counts.redis_promotions {
        processes.push(Fault::PromoteRedis);
    }
    for _ in 0..counts.redis_flushes {
        others.push(Fault::FlushRedis);
    }
    for _ in 0..counts.links {
        others.push(link_fault(rng));
    }
    for number in 0..counts.crash_points {
        others.push(crash_point(rng, number));
    }
    processes.shuffle(rng);
    others.shuffle(rng);
    [processes, others]
}

fn link_fault(rng: &mut StdRng) -> Fault {
    let link = match rng.random_range(0..8) {
        0..3 => Link::Redis(rng.random_range(0..REPLICAS)),
        3..6 => Link::Postgres(rng.random_range(0..REPLICAS)),
        _ => Link::Clients(rng.random_range(0..CLIENT_LINKS)),
    };
    let trouble = match rng.random_range(0..4) {
        0 => Trouble::Cut,
        1 => Trouble::Delay {
            ms: rng.random_range(20..200),
        },
        2 => Trouble::HalfClose,
        _ => Trouble::Blackhole,
    };
    Fault::Link {
        link,
        trouble,
        ms: rng.random_range(150..900),
    }
}

/// Every step in turn, so that a run that is long enough leaves none out.
fn crash_point(rng: &mut StdRng, number: u32) -> Fault {
    let deed = match rng.random_range(0..4) {
        0 | 1 => Deed::Abort,
        2 => Deed::Pause {
            ms: rng.random_range(100..1_500),
        },
        _ => Deed::Error,
    };
    Fault::CrashPoint {
        replica: rng.random_range(0..REPLICAS),
        point: number,
        deed,
        after: rng.random_range(0..3),
        ms: rng.random_range(500..1_300),
    }
}
