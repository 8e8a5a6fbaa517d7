//! The connection to Redis: one server, one behind sentinels, or a cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use deadpool_redis::{Config, Runtime, cluster, sentinel};
use redis::{Cmd, FromRedisValue, RedisError};

/// Redis did not answer, or may not be asked: work without the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the reservation index is away")]
pub struct Away;

/// An address that no connection can be made of.
#[derive(Debug, thiserror::Error)]
#[error("not an address of Redis: {0}")]
pub struct LinkError(String);

/// After a failure nobody asks Redis for this long: each would wait for the time-out.
const BREAK: Duration = Duration::from_secs(1);
/// How long a script may take. A slow answer is worth less than none.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a large value may be on its way: still less than making it anew.
const LARGE_PATIENCE: Duration = Duration::from_secs(2);
const POOL_SIZE: usize = 8;

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
    pool: Pool,
    /// A server to subscribe at: in a cluster each passes messages on.
    client: redis::Client,
    /// How long an answer is waited for.
    patience: Duration,
    started: Instant,
    /// Milliseconds since `started` until which Redis is left alone.
    broken_until: AtomicU64,
    /// Whether the server may drop keys by itself: then part of a table could vanish.
    evicts: AtomicBool,
}

enum Pool {
    Server(deadpool_redis::Pool),
    Sentinel(sentinel::Pool),
    Cluster(cluster::Pool),
}

impl Link {
    /// Connects lazily to `redis://HOST:PORT/DB` (`rediss` for TLS), to the primary of
    /// `redis+sentinel://HOST:PORT[,HOST:PORT…]/MASTER`, or to `redis+cluster://HOST:PORT[,HOST:PORT…]`.
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
        let (pool, client) = pool(address)?;
        Ok(Self(Arc::new(Inner {
            pool,
            client,
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

    /// Reads the server's eviction policy, and stops using the index under any but `noeviction`. Answers the policy.
    ///
    /// # Errors
    ///
    /// When Redis does not answer.
    pub async fn check_policy(&self) -> Result<String, Away> {
        let mut info = redis::cmd("INFO");
        info.arg("memory");
        let text: String = self.query(&info).await?;
        let policy = text
            .lines()
            .find_map(|line| line.strip_prefix("maxmemory_policy:"))
            .map_or("unknown", str::trim)
            .to_owned();
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

    pub(crate) fn client(&self) -> &redis::Client {
        &self.0.client
    }

    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Trouble> {
        let answer = async {
            match &self.0.pool {
                Pool::Server(pool) => Ok(command.query_async(&mut pool.get().await?).await?),
                Pool::Sentinel(pool) => Ok(command.query_async(&mut pool.get().await?).await?),
                Pool::Cluster(pool) => Ok(command.query_async(&mut pool.get().await?).await?),
            }
        };
        tokio::time::timeout(self.0.patience, answer)
            .await
            .unwrap_or(Err(Trouble::Late(self.0.patience)))
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
    Redis(#[from] RedisError),
    #[error("no connection: {0}")]
    Pool(#[from] deadpool_redis::PoolError),
    #[error("no answer in {} ms", .0.as_millis())]
    Late(Duration),
}

fn is_no_script(trouble: &Trouble) -> bool {
    matches!(trouble, Trouble::Redis(error)
        if error.kind() == redis::ErrorKind::Server(redis::ServerErrorKind::NoScript))
}

fn pool(address: &str) -> Result<(Pool, redis::Client), LinkError> {
    let bad = |error: &dyn std::fmt::Display| LinkError(error.to_string());
    let runtime = Some(Runtime::Tokio1);
    let urls = |hosts: &str| -> Vec<String> {
        hosts
            .split(',')
            .map(|host| format!("redis://{host}"))
            .collect()
    };
    if let Some(hosts) = address.strip_prefix("redis+cluster://") {
        let urls = urls(hosts);
        let client = redis::Client::open(urls[0].as_str()).map_err(|error| bad(&error))?;
        let pool = cluster::Config::from_urls(urls)
            .builder()
            .map_err(|error| bad(&error))?
            .max_size(POOL_SIZE)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| bad(&error))?;
        return Ok((Pool::Cluster(pool), client));
    }
    if let Some(rest) = address.strip_prefix("redis+sentinel://") {
        let (hosts, master) = rest
            .split_once('/')
            .ok_or_else(|| LinkError("the name of the primary is missing".to_owned()))?;
        let urls = urls(hosts);
        let client = redis::Client::open(urls[0].as_str()).map_err(|error| bad(&error))?;
        let config = sentinel::Config::from_urls(
            urls,
            master.to_owned(),
            sentinel::SentinelServerType::Master,
        );
        let pool = config.create_pool(runtime).map_err(|error| bad(&error))?;
        return Ok((Pool::Sentinel(pool), client));
    }
    let client = redis::Client::open(address).map_err(|error| bad(&error))?;
    let pool = Config::from_url(address)
        .builder()
        .map_err(|error| bad(&error))?
        .max_size(POOL_SIZE)
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| bad(&error))?;
    Ok((Pool::Server(pool), client))
}
