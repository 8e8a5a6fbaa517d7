//! Carrying out the faults of a plan on the processes of a stage.

use std::time::{Duration, Instant};

use anyhow::Result;
use chaos::history::{Event, Log};
use chaos::plan::{Deed, Fault, REPLICAS};
use serde::Deserialize;
use serde_json::json;

use super::stage::Stage;

/// A pause between two faults of a row, so that something works in between.
const BREATH: Duration = Duration::from_millis(120);
/// How long a replica may take to drain.
const DRAIN_WITHIN: Duration = Duration::from_secs(15);

/// Whoever breaks things, and writes down when.
pub(super) struct Deeds<'a> {
    stage: &'a Stage,
    log: Log,
    client: reqwest::Client,
    /// The numbered steps that replicas can be made to fail at.
    points: Vec<String>,
    next: std::cell::Cell<u32>,
    /// How many replicas died of a step.
    pub(super) crashes: std::cell::Cell<u32>,
}

#[derive(Deserialize)]
struct Point {
    name: String,
}

impl<'a> Deeds<'a> {
    pub(super) async fn new(stage: &'a Stage, log: Log) -> Result<Self> {
        let client = reqwest::Client::builder()
            .timeout(Duration::from_secs(2))
            .build()?;
        let switches = stage.slots[0].lock().await.switches();
        let points: Vec<Point> = client
            .get(format!("{switches}/points"))
            .send()
            .await?
            .error_for_status()?
            .json()
            .await?;
        Ok(Self {
            stage,
            log,
            client,
            points: points.into_iter().map(|point| point.name).collect(),
            next: std::cell::Cell::new(1),
            crashes: std::cell::Cell::new(0),
        })
    }

    /// From now on every crash point is this one.
    pub(super) fn die_only_at(&mut self, step: &str) {
        self.points = vec![step.to_owned()];
    }

    /// Carries out both rows of a plan at once, each from its first fault to its last.
    pub(super) async fn both_rows(&self, rows: &[Vec<Fault>; 2]) -> Result<()> {
        tokio::try_join!(self.row(&rows[0]), self.row(&rows[1])).map(drop)
    }

    async fn row(&self, faults: &[Fault]) -> Result<()> {
        for fault in faults {
            self.carry_out(fault).await?;
            tokio::time::sleep(BREATH).await;
        }
        Ok(())
    }

    fn begins(&self, kind: &str, what: String) -> u32 {
        let number = self.next.get();
        self.next.set(number + 1);
        self.log.note(Event::Fault {
            number,
            kind: kind.to_owned(),
            what,
        });
        number
    }

    fn is_over(&self, number: u32) {
        self.log.note(Event::Healed { number });
    }

    /// Breaks something, waits, and makes it whole.
    pub(super) async fn carry_out(&self, fault: &Fault) -> Result<()> {
        if let Fault::CrashPoint {
            replica,
            point,
            deed,
            after,
            ms,
        } = fault
        {
            return self.at_a_step(*replica, *point, *deed, *after, *ms).await;
        }
        let what = serde_json::to_string(fault)?;
        let number = self.begins(fault.kind(), what);
        let stage = self.stage;
        match *fault {
            Fault::KillReplica { replica, down_ms } => {
                let mut slot = stage.slots[replica % REPLICAS].lock().await;
                slot.kill();
                pause(down_ms).await;
                stage.start_slot(&mut slot).await?;
            }
            Fault::FreezeReplica { replica, ms } => {
                let slot = stage.slots[replica % REPLICAS].lock().await;
                slot.freeze();
                pause(ms).await;
                slot.resume();
            }
            Fault::FreezeService { ms } => self.freeze_all(ms).await,
            Fault::RestartPostgres { down_ms } => {
                let mut databases = stage.databases.lock().await;
                databases
                    .postgres
                    .restart(Duration::from_millis(down_ms))
                    .await?;
            }
            Fault::KillRedis { down_ms } => {
                let down = Duration::from_millis(down_ms);
                if stage.second_leads.get() {
                    stage.second.lock().await.crash(down).await?;
                } else {
                    stage.databases.lock().await.redis.crash(down).await?;
                }
            }
            Fault::FlushRedis => self.tell_redis("FLUSHALL").await?,
            Fault::EvictRedis { ms } => {
                self.tell_redis("CONFIG SET maxmemory 1mb").await?;
                self.tell_redis("CONFIG SET maxmemory-policy allkeys-random")
                    .await?;
                pause(ms).await;
                self.tell_redis("CONFIG SET maxmemory-policy noeviction")
                    .await?;
                self.tell_redis("CONFIG SET maxmemory 0").await?;
            }
            Fault::PromoteRedis => self.promote().await?,
            Fault::Link { link, trouble, ms } => {
                stage.link(link).trouble(trouble);
                pause(ms).await;
                stage.link(link).heal();
            }
            Fault::CrashPoint { .. } => {}
        }
        self.is_over(number);
        Ok(())
    }

    async fn freeze_all(&self, ms: u64) {
        let mut slots = Vec::new();
        for slot in &self.stage.slots {
            slots.push(slot.lock().await);
        }
        slots.iter().for_each(|slot| slot.freeze());
        pause(ms).await;
        slots.iter().for_each(|slot| slot.resume());
    }

    /// Says something to the Redis that leads.
    async fn tell_redis(&self, command: &str) -> Result<()> {
        let stage = self.stage;
        // In the order of `promote`, which changes who leads while others wait here.
        let second = stage.second.lock().await;
        if stage.second_leads.get() {
            return second.command(command).await.map(drop);
        }
        let databases = stage.databases.lock().await;
        databases.redis.command(command).await.map(drop)
    }

    /// The other Redis leads from now on, with whatever had reached it.
    async fn promote(&self) -> Result<()> {
        let stage = self.stage;
        let second = stage.second.lock().await;
        let databases = stage.databases.lock().await;
        let first = &databases.redis;
        let (new, old) = if stage.second_leads.get() {
            (first, &*second)
        } else {
            (&*second, first)
        };
        new.command("REPLICAOF NO ONE").await?;
        stage.lead_redis_to(new.port());
        old.command(&format!("REPLICAOF 127.0.0.1 {}", new.port()))
            .await?;
        stage.second_leads.set(!stage.second_leads.get());
        Ok(())
    }

    /// Arms a step of a replica, waits until it was passed or the time is over, and mends what came of it.
    async fn at_a_step(
        &self,
        replica: usize,
        point: u32,
        deed: Deed,
        after: u32,
        ms: u64,
    ) -> Result<()> {
        let name = &self.points[point as usize % self.points.len()];
        let action = match deed {
            Deed::Abort => json!("abort"),
            Deed::Pause { ms } => json!({ "pause_ms": ms }),
            Deed::Error => json!("error"),
        };
        let replica = replica % REPLICAS;
        let switches = self.stage.slots[replica].lock().await.switches();
        let fault = Fault::CrashPoint {
            replica,
            point,
            deed,
            after,
            ms,
        };
        let number = self.begins(
            fault.kind(),
            format!("{name} of replica {replica}: {action}"),
        );
        let armed = self
            .client
            .post(format!("{switches}/points/{name}"))
            .json(&json!({ "do": action, "after": after }))
            .send()
            .await;
        // A replica that is down or frozen at the moment cannot be armed.
        if armed.is_ok() {
            let until = Instant::now() + Duration::from_millis(ms);
            while Instant::now() < until {
                tokio::time::sleep(Duration::from_millis(30)).await;
                if let Ok(mut slot) = self.stage.slots[replica].try_lock()
                    && slot.is_down()
                {
                    self.crashes.set(self.crashes.get() + 1);
                    break;
                }
            }
            let disarm = self.client.delete(format!("{switches}/points"));
            let _ = disarm.send().await;
        }
        let mut slot = self.stage.slots[replica].lock().await;
        if slot.is_down() {
            self.stage.start_slot(&mut slot).await?;
        }
        self.is_over(number);
        Ok(())
    }

    /// Ends one replica after the other as a deployment does, and starts it again.
    pub(super) async fn roll(&self) -> Result<()> {
        for (replica, slot) in self.stage.slots.iter().enumerate() {
            let number = self.begins("replica drained", format!("replica {replica}"));
            let mut slot = slot.lock().await;
            slot.drain(DRAIN_WITHIN).await;
            self.stage.start_slot(&mut slot).await?;
            self.is_over(number);
        }
        Ok(())
    }

    /// Everything that a fault may have left half done is made whole.
    pub(super) async fn mend(&self) -> Result<()> {
        self.stage.mend().await?;
        for slot in &self.stage.slots {
            let switches = slot.lock().await.switches();
            let _ = self
                .client
                .delete(format!("{switches}/points"))
                .send()
                .await;
        }
        Ok(())
    }
}

async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
