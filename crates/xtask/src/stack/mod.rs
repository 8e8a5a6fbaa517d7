//! A throw-away Kilolock: its databases, N replicas, an archive worker, a balancer, and tenants to act as.
//!
//! [`Stack::start`] brings everything up on free loopback ports under one temporary directory; dropping the value
//! takes everything down again. The commands `stack`, `test`, `demo`, `lane` and `bench` all use this one; the part that needs
//! only the databases uses [`databases`] directly.

pub(crate) mod databases;
pub(crate) mod environment;
pub(crate) mod haproxy;
pub(crate) mod kld;
pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod s3;
pub(crate) mod scratch;
pub(crate) mod tenancy;
pub(crate) mod worker;

use std::num::NonZeroU8;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context as _, Result};

use crate::host::foreground;
use crate::host::install::{self, Tool};
use crate::host::ports::Ports;
use crate::host::process::Process;
use crate::host::workspace::{Profile, Workspace};

use databases::Databases;
use haproxy::Balancer;
use kld::{Replica, Settings};
use postgres::Durability;
use s3::S3Server;
use tenancy::Tenancy;
use worker::Worker;

/// Numbers replicas beside those that a stack begins with.
static NEXT_REPLICA: AtomicU8 = AtomicU8::new(100);

/// What to bring up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackOptions {
    pub(crate) replicas: NonZeroU8,
    pub(crate) profile: Profile,
    pub(crate) durability: Durability,
    pub(crate) object_storage: ObjectStorage,
    /// The port by which clients reach it, if that is not its own: something else listens there, and passes on.
    pub(crate) front: Option<u16>,
}

impl StackOptions {
    /// Two replicas behind a balancer, and archives in a folder.
    pub(crate) fn pair(profile: Profile, durability: Durability) -> Self {
        Self {
            replicas: NonZeroU8::MIN.saturating_add(1),
            profile,
            durability,
            object_storage: ObjectStorage::Without,
            front: None,
        }
    }
}

/// Whether an S3 server belongs to the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectStorage {
    Without,
    S3,
}

/// A running stack. The order of the fields is the order of going down: who depends on something ends before it.
#[derive(Debug)]
pub(crate) struct Stack {
    balancer: Option<Balancer>,
    worker: Worker,
    replicas: Vec<Replica>,
    s3: Option<S3Server>,
    pub(crate) tenancy: Tenancy,
    operator_token: String,
    settings: Settings,
    pub(crate) databases: Databases,
}

impl Stack {
    pub(crate) async fn start(workspace: &Workspace, options: StackOptions) -> Result<Self> {
        let balanced = options.replicas.get() > 1;
        if balanced {
            install::ensure(&[Tool::Haproxy]).await?;
        }
        kld::build(workspace, options.profile).await?;

        let mut ports = Ports::default();
        let databases = Databases::start(&mut ports, options.durability).await?;
        let (postgres, scratch) = (&databases.postgres, &databases.scratch);
        let s3 = match options.object_storage {
            ObjectStorage::Without => None,
            ObjectStorage::S3 => Some(S3Server::start(scratch, &mut ports).await?),
        };

        let addresses = kld::take_addresses(&mut ports, options.replicas)?;
        let balancer_port = if balanced { Some(ports.take()?) } else { None };
        let public_url = match options.front.or(balancer_port) {
            Some(port) => format!("http://127.0.0.1:{port}"),
            None => addresses[0].url(),
        };
        let blobs = match &s3 {
            Some(s3) => s3.settings(),
            None => {
                let folder = scratch.data_dir("blobs")?;
                vec![("KL_BLOBS", format!("file:{}", folder.display()))]
            }
        };
        let bin_dir = workspace.bin_dir(options.profile);
        let settings = Settings::new(bin_dir, &databases, public_url, blobs);
        kld::migrate(&settings, postgres).await?;
        let operator_token = kld::bootstrap(&settings).await?;

        let mut replicas = Vec::new();
        for (address, number) in addresses.into_iter().zip(1..) {
            replicas.push(Replica::start(number, address, &settings, scratch).await?);
        }
        let worker = Worker::start(&settings, postgres, scratch, &mut ports).await?;
        let balancer = match balancer_port {
            Some(port) => Some(Balancer::start(workspace, scratch, port, &replicas).await?),
            None => None,
        };
        // Past whatever is in front, which may not be ready yet.
        let behind = balancer.as_ref().map_or(replicas[0].url(), Balancer::url);
        let tenancy = Tenancy::create(behind, &operator_token)
            .await
            .context("cannot create the stack's tenants")?;

        let stack = Self {
            balancer,
            worker,
            replicas,
            s3,
            tenancy,
            operator_token,
            settings,
            databases,
        };
        stack.write_pids()?;
        Ok(stack)
    }

    /// Where clients connect: the balancer, or the only replica.
    pub(crate) fn url(&self) -> &str {
        match &self.balancer {
            Some(balancer) => balancer.url(),
            None => self.replicas[0].url(),
        }
    }

    /// Every replica by itself, past the balancer.
    pub(crate) fn replica_urls(&self) -> impl Iterator<Item = &str> {
        self.replicas.iter().map(Replica::url)
    }

    /// One more replica, which holds nothing yet, past the balancer. It ends when it is dropped.
    pub(crate) async fn another_replica(&self) -> Result<Replica> {
        let mut ports = Ports::default();
        let addresses = kld::take_addresses(&mut ports, NonZeroU8::MIN)?;
        // Its number only names its log.
        let number = NEXT_REPLICA.fetch_add(1, Ordering::Relaxed);
        Replica::start(
            number,
            addresses[0],
            &self.settings,
            &self.databases.scratch,
        )
        .await
    }

    /// Runs `kld` as the deployment's administrator does; answers what it prints.
    pub(crate) async fn kld(&self, arguments: &[&str]) -> Result<String> {
        let mut kld = self.settings.command_of("kld");
        kld.args(arguments);
        Ok(String::from_utf8(foreground::output(kld.into()).await?)?)
    }

    /// The process of the first replica, for those who watch what it costs.
    pub(crate) fn replica_pid(&self) -> u32 {
        self.replicas[0].process().pid()
    }

    /// The process of the archive worker, for the same.
    pub(crate) fn worker_pid(&self) -> u32 {
        self.worker.process().pid()
    }

    fn processes(&self) -> impl Iterator<Item = &Process> {
        [
            self.databases.postgres.process(),
            self.databases.redis.process(),
        ]
        .into_iter()
        .chain(self.s3.as_ref().map(S3Server::process))
        .chain(self.replicas.iter().map(Replica::process))
        .chain([self.worker.process()])
        .chain(self.balancer.as_ref().map(Balancer::process))
    }

    fn write_pids(&self) -> Result<()> {
        let path = self.databases.scratch.pids_file();
        std::fs::write(
            &path,
            pids(self.processes().map(|it| (it.name(), it.pid()))),
        )
        .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// The `KL_STACK_PIDS` file: one `name pid` line per process.
fn pids<'a>(processes: impl Iterator<Item = (&'a str, u32)>) -> String {
    processes
        .map(|(name, pid)| format!("{name} {pid}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pid_file_has_one_name_and_id_per_line() {
        let file = pids([("postgres", 12), ("kld-1", 345)].into_iter());
        assert_eq!(file, "postgres 12\nkld-1 345\n");
    }
}
