//! The processes of a run: three replicas behind HAProxy, Postgres, Redis with a replica, and a proxy on every link.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU8;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chaos::plan::{CLIENT_LINKS, Link, REPLICAS, Times};
use chaos::proxy::{Network, Proxy};
use chaos::wire::Wire;
use tokio::sync::Mutex;

use crate::host::foreground;
use crate::host::install::{self, Tool};
use crate::host::ports::Ports;
use crate::host::workspace::{Profile, Workspace};
use crate::stack::databases::Databases;
use crate::stack::haproxy::Balancer;
use crate::stack::kld::{self, Address, Replica, Settings};
use crate::stack::postgres::Durability;
use crate::stack::redis::Redis;
use crate::stack::tenancy::Tenancy;

/// The program with switches for faults (docs/faults.md).
pub(super) const PROGRAM: &str = "kld-faults";
/// By how much every time of the protocol is divided: a lease of 60 s lasts 2 s.
pub(super) const SCALE: f64 = 30.0;
/// The password-free role of the replicas, as the stack has it.
const ROLE: &str = "kld";
/// A replica that starts while its links are broken is started again so often.
const STARTS: usize = 4;

/// One replica, running or not.
pub(super) struct Slot {
    number: u8,
    address: Address,
    settings: Settings,
    pub(super) replica: Option<Replica>,
}

/// Everything that runs. The order of the fields is the order of going down.
pub(super) struct Stage {
    _balancer: Balancer,
    pub(super) slots: Vec<Mutex<Slot>>,
    pub(super) network: Network,
    redis_links: Vec<Proxy>,
    postgres_links: Vec<Proxy>,
    client_links: Vec<Proxy>,
    /// The second Redis; which of the two is the primary changes.
    pub(super) second: Mutex<Redis>,
    pub(super) second_leads: Cell<bool>,
    pub(super) databases: Mutex<Databases>,
    pub(super) tenancy: Tenancy,
    pub(super) ports: RefCell<Ports>,
    pub(super) times: Cell<Times>,
    /// Where every process writes its log.
    pub(super) logs: PathBuf,
}

impl Stage {
    pub(super) async fn start(workspace: &Workspace) -> Result<Self> {
        Self::start_beside(workspace, None).await
    }

    /// The same with the first replica from another directory of programs.
    pub(super) async fn start_beside(
        workspace: &Workspace,
        first: Option<PathBuf>,
    ) -> Result<Self> {
        install::ensure(&[Tool::Haproxy]).await?;
        build(workspace).await?;
        let mut ports = Ports::default();
        let databases = Databases::start(&mut ports, Durability::Process).await?;
        let second = Redis::start_as("redis-2", &databases.scratch, &mut ports).await?;
        second
            .command(&format!("REPLICAOF 127.0.0.1 {}", databases.redis.port()))
            .await?;
        let network = Network::start()?;
        let replicas = NonZeroU8::new(3).context("there are replicas")?;
        let addresses = kld::take_addresses(&mut ports, replicas)?;
        let balancer_port = ports.take()?;
        let (mut redis_links, mut postgres_links, mut client_links) = (vec![], vec![], vec![]);
        for _ in 0..REPLICAS {
            redis_links.push(network.proxy(ports.take()?, databases.redis.port()).await?);
            postgres_links.push(
                network
                    .proxy(ports.take()?, databases.postgres.port())
                    .await?,
            );
        }
        for _ in 0..CLIENT_LINKS {
            client_links.push(network.proxy(ports.take()?, balancer_port).await?);
        }

        let blobs = databases.scratch.data_dir("blobs")?;
        let blobs = vec![("KL_BLOBS", format!("file:{}", blobs.display()))];
        let public_url = format!("http://127.0.0.1:{balancer_port}");
        let bin_dir = workspace.bin_dir(Profile::Debug);
        let settings = Settings::new(bin_dir, &databases, public_url, blobs)
            .running(PROGRAM)
            .with("KL_FAULTS_TIME_SCALE", SCALE.to_string())
            .with("KL_DRAIN_SECONDS", "2".to_owned())
            .with("KL_LOG", "warn".to_owned());
        kld::migrate(&settings, &databases.postgres).await?;
        let operator_token = kld::bootstrap(&settings).await?;

        let (mut slots, mut running) = (Vec::new(), Vec::new());
        for (at, (address, number)) in addresses.into_iter().zip(1..).enumerate() {
            let settings = match &first {
                Some(programs) if at == 0 => settings.clone().in_dir(programs.clone()),
                _ => settings.clone(),
            };
            let settings = settings
                .with(
                    "KL_REDIS_URL",
                    format!("redis://127.0.0.1:{}", redis_links[at].port()),
                )
                .with("KL_DATABASE_URL", database_url(postgres_links[at].port()));
            running.push(Replica::start(number, address, &settings, &databases.scratch).await?);
            slots.push(Slot {
                number,
                address,
                settings,
                replica: None,
            });
        }
        let balancer =
            Balancer::start(workspace, &databases.scratch, balancer_port, &running).await?;
        let tenancy = Tenancy::create(balancer.url(), &operator_token).await?;
        for (slot, replica) in slots.iter_mut().zip(running) {
            slot.replica = Some(replica);
        }
        Ok(Self {
            _balancer: balancer,
            slots: slots.into_iter().map(Mutex::new).collect(),
            network,
            redis_links,
            postgres_links,
            client_links,
            logs: databases.scratch.path().to_owned(),
            second: Mutex::new(second),
            second_leads: Cell::new(false),
            databases: Mutex::new(databases),
            tenancy,
            ports: RefCell::new(ports),
            times: Cell::new(Times { scale: SCALE }),
        })
    }

    /// The way of clients to the service.
    pub(super) fn wire(&self) -> Result<Wire> {
        let bases = self.client_links.iter();
        let bases = bases.map(|link| format!("http://127.0.0.1:{}", link.port()));
        let tenancy = &self.tenancy;
        Wire::new(
            bases.collect(),
            format!("{}/{}", tenancy.workspace, tenancy.environment),
            tenancy.writer_token.clone(),
            tenancy.admin_token.clone(),
        )
    }

    pub(super) fn link(&self, link: Link) -> &Proxy {
        match link {
            Link::Redis(at) => &self.redis_links[at % self.redis_links.len()],
            Link::Postgres(at) => &self.postgres_links[at % self.postgres_links.len()],
            Link::Clients(at) => &self.client_links[at % self.client_links.len()],
        }
    }

    /// Leads all replicas to another Redis, or to what takes itself for one.
    pub(super) fn lead_redis_to(&self, port: u16) {
        self.redis_links.iter().for_each(|link| link.lead_to(port));
    }

    /// The port of the Redis that leads.
    pub(super) async fn redis_port(&self) -> u16 {
        if self.second_leads.get() {
            self.second.lock().await.port()
        } else {
            self.databases.lock().await.redis.port()
        }
    }

    /// Starts all replicas anew, with these rules switched off and every time divided by this.
    pub(super) async fn restart_without(&self, rules: &str, scale: f64) -> Result<()> {
        self.times.set(Times { scale });
        for slot in &self.slots {
            let mut slot = slot.lock().await;
            let settings = slot.settings.clone();
            slot.settings = settings
                .with("KL_FAULTS_OFF", rules.to_owned())
                .with("KL_FAULTS_TIME_SCALE", scale.to_string());
            slot.replica = None;
        }
        self.mend().await
    }

    /// Starts what does not run.
    pub(super) async fn mend(&self) -> Result<()> {
        for at in 0..self.slots.len() {
            let mut slot = self.slots[at].lock().await;
            if slot.is_down() {
                self.start_slot(&mut slot).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn start_slot(&self, slot: &mut Slot) -> Result<()> {
        slot.replica = None;
        let mut last = Ok(());
        for _ in 0..STARTS {
            let (number, address) = (slot.number, slot.address);
            let started = Replica::start_in(number, address, &slot.settings, &self.logs);
            match started.await {
                Ok(replica) => {
                    slot.replica = Some(replica);
                    return Ok(());
                }
                Err(error) => last = Err(error),
            }
        }
        last
    }
}

impl Slot {
    /// Whether it has ended, or was ended.
    pub(super) fn is_down(&mut self) -> bool {
        let replica = self.replica.as_mut();
        replica.is_none_or(|replica| replica.process_mut().has_ended())
    }

    pub(super) fn kill(&mut self) {
        if let Some(mut replica) = self.replica.take() {
            replica.process_mut().kill();
        }
    }

    /// Ends it as a deployment does.
    pub(super) async fn drain(&mut self, within: Duration) {
        if let Some(mut replica) = self.replica.take() {
            replica.process_mut().end_politely(within).await;
        }
    }

    pub(super) fn freeze(&self) {
        if let Some(replica) = &self.replica {
            replica.process().freeze();
        }
    }

    pub(super) fn resume(&self) {
        if let Some(replica) = &self.replica {
            replica.process().resume();
        }
    }

    /// Where its switches are.
    pub(super) fn switches(&self) -> String {
        format!("{}/faults", self.address.metrics_url())
    }
}

fn database_url(port: u16) -> String {
    format!("postgres://{ROLE}@127.0.0.1:{port}/{}", kld::DATABASE)
}

/// Builds the service with its switches, with the features of the whole workspace.
async fn build(workspace: &Workspace) -> Result<()> {
    let mut build = workspace.cargo();
    build.args(["build", "--workspace", "--features", "kld/faults"]);
    build.args(["--bin", PROGRAM]);
    foreground::run_checked(build).await
}
