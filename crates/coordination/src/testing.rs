//! Servers for tests: one Redis, a cluster of three, and a primary with a replica and a sentinel. Each lives in a directory
//! of its own and ends with its value. And whether an index works on one.
//!
//! Needs `redis-server` on the path, which also is the sentinel. Nothing is replaced: these are what a deployment has.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use graph::claims::ClaimSet;
use redis::aio::MultiplexedConnection;
use redis::{Client, FromRedisValue};
use tempfile::TempDir;
use uuid::Uuid;

use crate::{Admission, Ask, Contention, Index, Loaded, Queueing, StateKey};

/// A start takes 50 ms; a machine that builds on all cores may need much longer.
const READY_WITHIN: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(25);
/// A port of a cluster has its bus 10,000 above; and Linux gives out ports from 32,768 on by itself.
const PORTS: std::ops::Range<u16> = 12_000..22_000;
const SLOTS: u32 = 16_384;

/// A running server.
#[derive(Debug)]
pub struct RedisServer {
    child: Child,
    port: u16,
    _directory: TempDir,
}

impl RedisServer {
    /// One that keeps nothing, and evicts nothing.
    ///
    /// # Panics
    ///
    /// When it does not start. A test cannot go on, and says why; so do all functions here.
    pub async fn start() -> Self {
        Self::start_with("").await
    }

    /// The same with more lines of configuration.
    pub async fn start_with(lines: &str) -> Self {
        Self::start_as("", lines).await
    }

    async fn start_as(argument: &str, lines: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let port = free_port();
        let mut config = format!("port {port}\nbind 127.0.0.1\nlogfile redis.log\n");
        let _ = write!(config, "dir {}\n{lines}\n", directory.path().display());
        if argument.is_empty() {
            config.push_str("save \"\"\nappendonly no\n");
        }
        let path = directory.path().join("redis.conf");
        std::fs::write(&path, config).expect("a configuration");
        let mut command = Command::new("redis-server");
        command
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if !argument.is_empty() {
            command.arg(argument);
        }
        let child = command.spawn().expect("redis-server is on the path");
        let server = Self {
            child,
            port,
            _directory: directory,
        };
        until("a server answers", async || {
            server.ask::<String>("PING").await.is_some()
        })
        .await;
        server
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Ends it without a word to anybody.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// A connection to this very server.
    pub async fn connect(&self) -> Option<MultiplexedConnection> {
        let client = Client::open(self.url()).ok()?;
        client.get_multiplexed_async_connection().await.ok()
    }

    /// What it answers to a command; `None` if it does not.
    pub async fn ask<T: FromRedisValue>(&self, command: &str) -> Option<T> {
        let mut words = command.split(' ');
        let mut asked = redis::cmd(words.next()?);
        words.for_each(|word| {
            asked.arg(word);
        });
        let mut connection = self.connect().await?;
        asked.query_async(&mut connection).await.ok()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Three primaries that share the slots.
#[derive(Debug)]
pub struct Cluster {
    pub nodes: Vec<RedisServer>,
}

impl Cluster {
    /// Waits until all of them agree who has which slot.
    pub async fn start() -> Self {
        let lines =
            "cluster-enabled yes\ncluster-require-full-coverage no\ncluster-node-timeout 2000";
        let mut nodes = Vec::new();
        for _ in 0..3 {
            nodes.push(RedisServer::start_with(lines).await);
        }
        let count = nodes.len() as u32;
        for (number, node) in (0_u32..).zip(&nodes) {
            let (first, last) = (SLOTS * number / count, SLOTS * (number + 1) / count - 1);
            for command in [
                format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1),
                format!("CLUSTER ADDSLOTSRANGE {first} {last}"),
                format!("CLUSTER MEET 127.0.0.1 {}", nodes[0].port),
            ] {
                let done: Option<String> = node.ask(&command).await;
                assert!(done.is_some(), "{command}");
            }
        }
        for node in &nodes {
            until("the nodes of a cluster agree", async || {
                let info: String = node.ask("CLUSTER INFO").await.unwrap_or_default();
                info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
            })
            .await;
        }
        Self { nodes }
    }

    /// As `KL_REDIS_URL` has it.
    #[must_use]
    pub fn address(&self) -> String {
        let hosts: Vec<String> = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port))
            .collect();
        format!("redis+cluster://{}", hosts.join(","))
    }
}

/// A primary, its replica, and a sentinel that makes the replica the primary within a second or two.
#[derive(Debug)]
pub struct Guarded {
    pub primary: RedisServer,
    pub replica: RedisServer,
    sentinel: RedisServer,
}

impl Guarded {
    /// Waits until the replica follows and the sentinel knows both.
    pub async fn start() -> Self {
        let primary = RedisServer::start().await;
        let follows = format!(
            "replicaof 127.0.0.1 {}\nrepl-diskless-sync-delay 0",
            primary.port
        );
        let replica = RedisServer::start_with(&follows).await;
        until("the replica follows", async || {
            let info: String = replica.ask("INFO replication").await.unwrap_or_default();
            info.contains("master_link_status:up")
        })
        .await;
        let watches = format!(
            "sentinel monitor main 127.0.0.1 {} 1\nsentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000",
            primary.port
        );
        let sentinel = RedisServer::start_as("--sentinel", &watches).await;
        until("the sentinel knows the replica", async || {
            let replicas: Vec<Vec<String>> = sentinel
                .ask("SENTINEL REPLICAS main")
                .await
                .unwrap_or_default();
            !replicas.is_empty()
        })
        .await;
        Self {
            primary,
            replica,
            sentinel,
        }
    }

    /// As `KL_REDIS_URL` has it.
    #[must_use]
    pub fn address(&self) -> String {
        format!("redis+sentinel://127.0.0.1:{}/main", self.sentinel.port)
    }

    /// Kills the primary and waits until the replica has its place.
    pub async fn fail_over(&mut self) {
        self.primary.kill();
        until("the replica is the primary", async || {
            let info: String = self
                .replica
                .ask("INFO replication")
                .await
                .unwrap_or_default();
            info.contains("role:master")
        })
        .await;
    }
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < READY_WITHIN, "not in time: {what}");
        tokio::time::sleep(LOOK).await;
    }
}

/// A port that nobody listens on, nor on that of the bus that would belong to it.
fn free_port() -> u16 {
    let seed = std::collections::hash_map::RandomState::new();
    let random = std::hash::BuildHasher::hash_one(&seed, std::process::id());
    let width = u64::from(PORTS.end - PORTS.start);
    let ports = (0..width).map(|step| PORTS.start + ((random + step) % width) as u16);
    let is_free = |port: &u16| {
        let binds = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        binds(*port) && binds(*port + 10_000)
    };
    let mut free = ports.filter(is_free);
    free.next().expect("a free port")
}

/// Asks for a new state; whether the index was there and took part.
pub async fn works(index: &Index) -> bool {
    let key = StateKey {
        workspace: "ws_0123456789ab".to_owned(),
        state: Uuid::now_v7(),
    };
    let nodes = ClaimSet::whole_state().nodes();
    let ask = Ask {
        key: &key,
        incarnation: 1,
        idem_key: "ann",
        nodes: &nodes,
        queue: Queueing::Native(None),
        about: "",
    };
    if index.admit(&ask).await != Ok(Admission::Rebuild) {
        return false;
    }
    let loaded = index.load(&key, 1, 0, &[], Contention::Unknown);
    loaded.await == Ok(Loaded::Yes)
        && index.admit(&ask).await == Ok(Admission::Admitted { known_gen: 0 })
}
