//! The connection to Redis: one server, one behind sentinels, or a cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::aio::PubSub;
use redis::{Cmd, FromRedisValue, RedisError, Value};

use crate::servers::{LinkError, NoAnswer, Servers, texts};

/// Redis did not answer, or may not be asked: work without the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the reservation index is away")]
pub struct Away;

/// After a failure nobody asks Redis for this long: each would wait for the time-out.
const BREAK: Duration = Duration::from_secs(1);
/// How long a script may take. A slow answer is worth less than none.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a large value may be on its way: still less than making it anew.
const LARGE_PATIENCE: Duration = Duration::from_secs(2);
/// What is said of a server that does not tell its policy. It is not trusted.
const UNKNOWN_POLICY: &str = "unknown";

/// A connection to Redis. Cheap to clone.
#[derive(Clone)]
pub struct Link(Arc<Inner>);

impl std::fmt::Debug for Link {
    /// Addresses may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Link")
    }
}

struct Inner {
    servers: Servers,
    /// How long an answer is waited for.
    patience: Duration,
    started: Instant,
    /// Milliseconds since `started` until which Redis is left alone.
    broken_until: AtomicU64,
    /// Whether the server may drop keys by itself: then part of a table could vanish.
    evicts: AtomicBool,
}

impl Link {
    /// Connects lazily to `redis://HOST:PORT/DB`, to the primary of `redis+sentinel://HOST:PORT[,HOST:PORT…]/PRIMARY`, or to
    /// `redis+cluster://HOST:PORT[,HOST:PORT…]`. `rediss` is TLS; `USER:PASSWORD@` goes in front of the hosts.
    ///
    /// # Errors
    ///
    /// When the address is none of these.
    pub fn new(address: &str) -> Result<Self, LinkError> {
        Self::with_patience(address, PATIENCE)
    }

    /// As [`Link::new`], for a cache of large values. What goes wrong with it does not keep the index from being asked.
    ///
    /// # Errors
    ///
    /// When the address is no such address.
    pub fn for_large_values(address: &str) -> Result<Self, LinkError> {
        Self::with_patience(address, LARGE_PATIENCE)
    }

    fn with_patience(address: &str, patience: Duration) -> Result<Self, LinkError> {
        Ok(Self(Arc::new(Inner {
            servers: Servers::of(address)?,
            patience,
            started: Instant::now(),
            broken_until: AtomicU64::new(0),
            evicts: AtomicBool::new(false),
        })))
    }

    /// Whether the index may be used: Redis answers, and keeps what it was given.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.is_up() && !self.0.evicts.load(Ordering::Relaxed)
    }

    /// Whether Redis answered when it was last asked, or that is a while ago.
    fn is_up(&self) -> bool {
        let since = u64::try_from(self.0.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        since >= self.0.broken_until.load(Ordering::Relaxed)
    }

    /// Reads the eviction policy, in a cluster that of each primary, and stops using the index under any but `noeviction`.
    /// Answers the policy, the first other one if there is one.
    ///
    /// # Errors
    ///
    /// When Redis does not answer.
    pub async fn check_policy(&self) -> Result<String, Away> {
        let mut info = redis::cmd("INFO");
        info.arg("memory");
        let answer: Value = if self.0.servers.fail_as_one() {
            self.query(&info).await?
        } else {
            // Those that answer are asked on.
            self.ask(&info).await.map_err(|_| Away)?
        };
        let policies: Vec<String> = texts(answer).iter().map(|text| policy_in(text)).collect();
        let other = policies.iter().find(|policy| *policy != "noeviction");
        let policy = other.or(policies.first()).cloned();
        let policy = policy.unwrap_or_else(|| UNKNOWN_POLICY.to_owned());
        let evicts = policy != "noeviction";
        if evicts && !self.0.evicts.swap(evicts, Ordering::Relaxed) {
            tracing::error!(
                policy,
                "Redis may drop keys by itself, so the reservation index is not used"
            );
        }
        self.0.evicts.store(evicts, Ordering::Relaxed);
        Ok(policy)
    }

    /// Runs a script on the tables of one state.
    pub(crate) async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[String],
        arguments: &[String],
    ) -> Result<T, Away> {
        if !self.is_usable() {
            return Err(Away);
        }
        let command = |name, what: &str| {
            let mut command = redis::cmd(name);
            command.arg(what).arg(keys.len()).arg(keys).arg(arguments);
            command
        };
        let outcome = self.ask(&command("EVALSHA", &script.hash)).await;
        let outcome = match outcome {
            // The server has never seen it, or has been restarted.
            Err(error) if is_no_script(&error) => self.ask(&command("EVAL", &script.text)).await,
            outcome => outcome,
        };
        self.judge(outcome)
    }

    pub(crate) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Away> {
        if !self.is_up() {
            return Err(Away);
        }
        let outcome = self.ask(command).await;
        self.judge(outcome)
    }

    /// A connection to subscribe by.
    pub(crate) async fn listen(&self) -> Result<PubSub, RedisError> {
        self.0.servers.listen().await
    }

    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Trouble> {
        let (servers, patience) = (&self.0.servers, self.0.patience);
        let answer = async { Ok(servers.ask(command, patience).await?) };
        match tokio::time::timeout(patience, answer).await {
            Ok(answer) => answer,
            Err(_) => {
                servers.forget_connection(patience);
                Err(Trouble::Late(patience))
            }
        }
    }

    fn judge<T>(&self, outcome: Result<T, Trouble>) -> Result<T, Away> {
        outcome.map_err(|trouble| {
            let until = self.0.started.elapsed() + BREAK;
            let until = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
            self.0.broken_until.store(until, Ordering::Relaxed);
            tracing::warn!(error = %trouble, "Redis does not answer as it should; what can go without it does");
            Away
        })
    }
}

/// A script as it travels in the binary.
pub(crate) struct Script {
    text: String,
    hash: String,
}

impl Script {
    /// A script that begins with what all share.
    pub(crate) fn new(text: &str) -> Self {
        let text = format!("{}\n{text}", include_str!("scripts/prelude.lua"));
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }
}

/// Why there is no answer: for the log alone.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Told(#[from] NoAnswer),
    #[error("no answer in {} ms", .0.as_millis())]
    Late(Duration),
}

fn is_no_script(trouble: &Trouble) -> bool {
    matches!(trouble, Trouble::Told(NoAnswer::Redis(error))
        if error.kind() == redis::ErrorKind::Server(redis::ServerErrorKind::NoScript))
}

fn policy_in(info: &str) -> String {
    let policy = info
        .lines()
        .find_map(|line| line.strip_prefix("maxmemory_policy:"));
    policy.map_or(UNKNOWN_POLICY, str::trim).to_owned()
}
