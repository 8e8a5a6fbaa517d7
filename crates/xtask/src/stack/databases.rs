//! Postgres and Redis under one temporary directory: all that most tests need.

use anyhow::Result;

use super::postgres::{Durability, Postgres};
use super::redis::Redis;
use super::scratch::Scratch;
use crate::host::install::{self, Tool};
use crate::host::ports::Ports;

/// Running databases. The directory is the last to go.
#[derive(Debug)]
pub(crate) struct Databases {
    pub(crate) redis: Redis,
    pub(crate) postgres: Postgres,
    pub(crate) scratch: Scratch,
}

impl Databases {
    /// Installs what is missing where that is possible, then starts both.
    pub(crate) async fn start(ports: &mut Ports, durability: Durability) -> Result<Self> {
        install::ensure(&[Tool::Postgres, Tool::Redis]).await?;
        let scratch = Scratch::create()?;
        let postgres = Postgres::start(&scratch, ports, durability).await?;
        let redis = Redis::start(&scratch, ports).await?;
        Ok(Self {
            redis,
            postgres,
            scratch,
        })
    }

    /// What the tests look for. They create their own databases in the cluster, so they are its superuser.
    pub(crate) fn test_variables(&self) -> [(&'static str, String); 2] {
        [
            (
                "KL_TEST_DATABASE_URL",
                self.postgres.superuser_url("postgres"),
            ),
            ("KL_TEST_REDIS_URL", self.redis.url()),
        ]
    }
}
