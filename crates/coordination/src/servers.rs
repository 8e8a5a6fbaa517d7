//! The servers that an address names: one, one behind sentinels, or a cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_redis::sentinel::{SentinelNodeConnectionInfo, SentinelServerType, TlsMode};
use deadpool_redis::{Config, Connection, ConnectionInfo, Runtime, cluster, sentinel};
use redis::aio::{MultiplexedConnection, PubSub};
use redis::cluster_async::ClusterConnection;
use redis::sentinel::SentinelClient;
use redis::{Client, Cmd, FromRedisValue, RedisError, Value};
use tokio::sync::Mutex;

use crate::line::{Line, Opening};

/// An address that no connection can be made of.
#[derive(Debug, thiserror::Error)]
#[error("not an address of Redis: {0}")]
pub struct LinkError(String);

/// Connections to ask by, and a way to subscribe.
pub(crate) enum Servers {
    One {
        pool: deadpool_redis::Pool,
        line: Line<MultiplexedConnection>,
        client: Client,
    },
    Sentinel {
        pool: sentinel::Pool,
        line: Line<MultiplexedConnection>,
        /// Asks the sentinels each time: the primary may be another one.
        client: Mutex<SentinelClient>,
    },
    Cluster {
        pool: cluster::Pool,
        line: Line<ClusterConnection>,
        /// Each passes on what is published anywhere.
        clients: Vec<Client>,
        next: AtomicUsize,
    },
}

/// Why there is no answer: for the log alone.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error(transparent)]
    Redis(#[from] RedisError),
    #[error("no connection: {0}")]
    Pool(#[from] Arc<deadpool_redis::PoolError>),
}

/// An address, taken apart.
struct Address<'a> {
    scheme: &'static str,
    /// `USER:PASSWORD@`, or nothing.
    credentials: &'a str,
    hosts: Vec<&'a str>,
    /// What follows the hosts.
    rest: Option<&'a str>,
}

impl<'a> Address<'a> {
    /// Reads what follows `redis+KIND://` or `rediss+KIND://`. `None`: the address is of another kind.
    fn read(text: &'a str, kind: &str) -> Option<Self> {
        let (scheme, text) = text.split_once("://")?;
        let scheme = match scheme.split_once('+')? {
            ("redis", found) if found == kind => "redis",
            ("rediss", found) if found == kind => "rediss",
            _ => return None,
        };
        let at = text.rfind('@').map_or(0, |at| at + 1);
        let (credentials, text) = text.split_at(at);
        let (hosts, rest) = match text.split_once('/') {
            Some((hosts, rest)) => (hosts, Some(rest)),
            None => (text, None),
        };
        Some(Self {
            scheme,
            credentials,
            hosts: hosts.split(',').collect(),
            rest: rest.filter(|rest| !rest.is_empty()),
        })
    }

    /// Each host by itself, with or without the credentials.
    fn urls(&self, credentials: &str) -> Vec<String> {
        let scheme = self.scheme;
        let url = |host: &&str| format!("{scheme}://{credentials}{host}");
        self.hosts.iter().map(url).collect()
    }
}

impl Servers {
    pub(crate) fn of(address: &str) -> Result<Self, LinkError> {
        if let Some(address) = Address::read(address, "cluster") {
            return Self::cluster(&address);
        }
        if let Some(address) = Address::read(address, "sentinel") {
            return Self::sentinel(&address);
        }
        let client = Client::open(address).map_err(bad)?;
        let pool = Config::from_url(address)
            .builder()
            .map_err(bad)?
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(bad)?;
        Ok(Self::One {
            pool,
            line: Line::default(),
            client,
        })
    }

    fn cluster(address: &Address<'_>) -> Result<Self, LinkError> {
        let urls = address.urls(address.credentials);
        let clients = urls.iter().map(|url| Client::open(url.as_str()));
        let clients = clients.collect::<Result<_, _>>().map_err(bad)?;
        let pool = cluster::Config::from_urls(urls)
            .builder()
            .map_err(bad)?
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(bad)?;
        Ok(Self::Cluster {
            pool,
            line: Line::default(),
            clients,
            next: AtomicUsize::new(0),
        })
    }

    fn sentinel(address: &Address<'_>) -> Result<Self, LinkError> {
        let primary = address
            .rest
            .ok_or_else(|| LinkError("the name of the primary is missing".to_owned()))?;
        // The credentials are those of the primary and its replicas; sentinels are asked without any.
        let urls = address.urls("");
        let node = format!(
            "{}://{}{}",
            address.scheme, address.credentials, address.hosts[0]
        );
        let node: ConnectionInfo =
            deadpool_redis::redis::IntoConnectionInfo::into_connection_info(node)
                .map_err(bad)?
                .into();
        let node = SentinelNodeConnectionInfo {
            tls_mode: (address.scheme == "rediss").then_some(TlsMode::Secure),
            redis_connection_info: Some(node.redis),
        };
        let client = SentinelClient::build(
            urls.clone(),
            primary,
            Some(node.clone().into()),
            redis::sentinel::SentinelServerType::Master,
        )
        .map_err(bad)?;
        let pool =
            sentinel::Config::from_urls(urls, primary.to_owned(), SentinelServerType::Master)
                .with_node_connection_info(Some(node))
                .builder()
                .map_err(bad)?
                .runtime(Runtime::Tokio1)
                .build()
                .map_err(bad)?;
        Ok(Self::Sentinel {
            pool,
            line: Line::default(),
            client: Mutex::new(client),
        })
    }

    /// Whether one server that is away takes everything with it.
    pub(crate) fn fail_as_one(&self) -> bool {
        !matches!(self, Self::Cluster { .. })
    }

    /// Asks, with an answer that may take as long as `patience`.
    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        command: &Cmd,
        patience: Duration,
    ) -> Result<T, NoAnswer> {
        match self {
            Self::One { pool, line, .. } => {
                let pool = pool.clone();
                let open = move || -> Opening<_> {
                    Box::pin(async move {
                        let connection = Connection::take(pool.get().await?);
                        Ok(patient(connection, patience))
                    })
                };
                line.ask(command, open).await
            }
            Self::Sentinel { pool, line, .. } => {
                let pool = pool.clone();
                let open = move || -> Opening<_> {
                    Box::pin(async move {
                        let connection = sentinel::Connection::take(pool.get().await?);
                        Ok(patient(connection, patience))
                    })
                };
                line.ask(command, open).await
            }
            Self::Cluster { pool, line, .. } => {
                let pool = pool.clone();
                let open = move || -> Opening<_> {
                    Box::pin(async move { Ok(cluster::Connection::take(pool.get().await?)) })
                };
                line.ask(command, open).await
            }
        }
    }

    /// Asks by another connection from now on, if the present one has been silent for so long.
    pub(crate) fn forget_connection(&self, patience: Duration) {
        match self {
            Self::One { line, .. } | Self::Sentinel { line, .. } => line.forget(patience),
            Self::Cluster { line, .. } => line.forget(patience),
        }
    }

    /// A connection to subscribe by. In a cluster another server each time: one of them may be away.
    pub(crate) async fn listen(&self) -> Result<PubSub, RedisError> {
        match self {
            Self::One { client, .. } => client.get_async_pubsub().await,
            Self::Sentinel { client, .. } => {
                let client = client.lock().await.async_get_client().await?;
                client.get_async_pubsub().await
            }
            Self::Cluster { clients, next, .. } => {
                let next = next.fetch_add(1, Ordering::Relaxed);
                clients[next % clients.len()].get_async_pubsub().await
            }
        }
    }
}

/// The library has a patience of its own, of half a second.
fn patient(mut connection: MultiplexedConnection, patience: Duration) -> MultiplexedConnection {
    connection.set_response_timeout(patience);
    connection
}

/// What each of the servers that were asked for a text has answered.
pub(crate) fn texts(answer: Value) -> Vec<String> {
    match answer {
        Value::BulkString(bytes) => vec![String::from_utf8_lossy(&bytes).into_owned()],
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => vec![text],
        // A cluster answers with one text for each of its primaries.
        Value::Map(of_servers) => {
            let answers = of_servers.into_iter().map(|(_, answer)| answer);
            answers.flat_map(texts).collect()
        }
        Value::Array(answers) => answers.into_iter().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

fn bad(error: impl std::fmt::Display) -> LinkError {
    LinkError(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart_at_their_signs() {
        let read = |text, kind| {
            let address = Address::read(text, kind)?;
            let urls = address.urls(address.credentials);
            Some((urls, address.rest.map(str::to_owned)))
        };
        let urls = |some: &[&str]| some.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            read("redis+sentinel://a:1,b:2/main", "sentinel"),
            Some((
                urls(&["redis://a:1", "redis://b:2"]),
                Some("main".to_owned())
            ))
        );
        assert_eq!(
            read("rediss+cluster://ann:p@ss@a:1,b:2", "cluster"),
            Some((
                urls(&["rediss://ann:p@ss@a:1", "rediss://ann:p@ss@b:2"]),
                None
            ))
        );
        for other in ["redis://a:1", "redis+cluster:a:1", "http+cluster://a:1"] {
            assert_eq!(read(other, "cluster"), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for address in [
            "redis+sentinel://a:1",
            "redis+sentinel://a:1/",
            "redis+cluster://",
            "http://a",
            "a:1",
        ] {
            assert!(Servers::of(address).is_err(), "{address}");
        }
        for address in [
            "redis://a:1/2",
            "redis+sentinel://:secret@a:1,b:2/main",
            "rediss+cluster://ann:secret@a:1,b:2",
        ] {
            assert!(Servers::of(address).is_ok(), "{address}");
        }
    }
}
