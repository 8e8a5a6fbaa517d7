//! A run from its plan to its verdict.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use chaos::check::{self, CALM, Invariant, Violation};
use chaos::clients::{Clients, World};
use chaos::history::{self, Event, Log};
use chaos::ledger::Ledger;
use chaos::liar::{Liar, Lie};
use chaos::plan::{Fault, Plan, Profile};
use chaos::report::{Figures, POSTGRES_DRILL, REDIS_DRILL, ROLLING_DRILL};

use super::deeds::Deeds;
use super::dump;
use super::stage::Stage;

/// Who is called to rest brings to an end what is begun: a repeated request may take its 20 s.
pub(super) const REST_WITHIN: Duration = Duration::from_secs(45);
/// After the last fault, how long it echoes.
const SETTLE: Duration = Duration::from_millis(2_500);
const CALM_FOR: Duration = Duration::from_secs(10);
/// The same where no figures are wanted of it.
const SHORT_CALM: Duration = Duration::from_secs(2);
/// How much longer it may last, for the sake of the number of operations.
const LONGEST_CALM: Duration = Duration::from_secs(75);
/// By how much every time is divided before a liar: who waits is to ask it again and again, and the ledger seldom.
const LIARS_SCALE: f64 = 5.0;
/// How long a drill goes on after what it is about.
const DRILL_ECHO: Duration = Duration::from_millis(1_500);

/// Where a run is kept.
pub(super) struct Place(PathBuf);

impl Place {
    pub(super) fn create(dir: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Self(dir))
    }

    pub(super) fn at(dir: PathBuf) -> Self {
        Self(dir)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn history(&self) -> PathBuf {
        self.0.join("history.jsonl")
    }

    pub(super) fn ledger(&self) -> PathBuf {
        self.0.join("ledger.json")
    }

    pub(super) fn plan(&self) -> PathBuf {
        self.0.join("plan.json")
    }

    pub(super) fn write_plan(&self, plan: &Plan) -> Result<()> {
        Ok(std::fs::write(
            self.plan(),
            serde_json::to_vec_pretty(plan)?,
        )?)
    }

    pub(super) fn read_plan(&self) -> Result<Plan> {
        let text = std::fs::read(self.plan())
            .with_context(|| format!("cannot read {}", self.plan().display()))?;
        Ok(serde_json::from_slice(&text)?)
    }
}

/// What a run came to.
pub(super) struct Verdict {
    pub(super) violations: Vec<Violation>,
    pub(super) figures: Figures,
}

/// Judges a run that was written down.
pub(super) fn judge(place: &Place) -> Result<Verdict> {
    let history = history::read(&place.history())?;
    let ledger = Ledger::read(&place.ledger())?;
    let violations = check::check(&history, &ledger);
    let figures = Figures::of(&history, &ledger, &violations);
    Ok(Verdict {
        violations,
        figures,
    })
}

/// The clients of a plan on a stage.
pub(super) fn world(stage: &Stage, plan: &Plan, log: &Log) -> Result<Arc<World>> {
    Ok(Arc::new(World {
        wire: stage.wire()?,
        log: log.clone(),
        times: stage.times.get(),
        states: plan.states.clone(),
    }))
}

/// Runs a plan's storm, its calm and its drills, and writes everything down.
pub(super) async fn storm(stage: &Stage, plan: &Plan, place: &Place) -> Result<u32> {
    place.write_plan(plan)?;
    let log = Log::create(&place.history())?;
    let world = world(stage, plan, &log)?;
    dump::seed(&world.wire, plan).await?;
    let deeds = Deeds::new(stage, log.clone()).await?;
    let clients = Clients::start(&world, plan);

    phase(&log, "storm");
    let began = Instant::now();
    deeds.both_rows(&plan.faults).await?;
    let rest = Duration::from_millis(plan.profile.storm_ms).saturating_sub(began.elapsed());
    tokio::time::sleep(rest).await;
    deeds.mend().await?;
    tokio::time::sleep(SETTLE).await;

    phase(&log, CALM);
    let calm = if plan.profile.drills {
        CALM_FOR
    } else {
        SHORT_CALM
    };
    tokio::time::sleep(calm).await;
    let longest = Instant::now() + LONGEST_CALM;
    while log.operations() < plan.profile.operations && Instant::now() < longest {
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    if plan.profile.drills {
        drills(&deeds, &log).await?;
    }
    phase(&log, "rest");
    let stuck = clients.rest(REST_WITHIN).await;
    if stuck > 0 {
        eprintln!("chaos: {stuck} clients did not come to an end");
    }
    write_down(stage, plan, place, &world, &log).await?;
    Ok(deeds.crashes.get())
}

async fn drills(deeds: &Deeds<'_>, log: &Log) -> Result<()> {
    phase(log, REDIS_DRILL);
    for down_ms in [0, 300] {
        deeds.carry_out(&Fault::FlushRedis).await?;
        tokio::time::sleep(DRILL_ECHO).await;
        deeds.carry_out(&Fault::KillRedis { down_ms }).await?;
        tokio::time::sleep(DRILL_ECHO).await;
    }
    phase(log, "between drills");
    tokio::time::sleep(DRILL_ECHO).await;
    phase(log, POSTGRES_DRILL);
    deeds
        .carry_out(&Fault::RestartPostgres { down_ms: 1_000 })
        .await?;
    tokio::time::sleep(SETTLE).await;
    phase(log, "between drills");
    tokio::time::sleep(DRILL_ECHO).await;
    phase(log, ROLLING_DRILL);
    deeds.roll().await?;
    tokio::time::sleep(DRILL_ECHO).await;
    Ok(())
}

/// Waits until everything is quiet, then writes down what there is.
pub(super) async fn write_down(
    stage: &Stage,
    plan: &Plan,
    place: &Place,
    world: &World,
    log: &Log,
) -> Result<()> {
    dump::touch(&world.wire, log, plan).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    log.flush()?;
    let mut ledger = dump::ledger(stage, plan).await?;
    ledger.index = dump::index(stage, &ledger.states).await?;
    ledger.documents = dump::documents(&world.wire, &ledger.states).await?;
    // Reading a version for the first time fills in its digest.
    ledger.versions = dump::ledger(stage, plan).await?.versions;
    ledger.write(&place.ledger())
}

/// What a run before a liar came to.
pub(super) struct Lies {
    pub(super) told: u64,
    pub(super) by_kind: BTreeMap<Lie, u64>,
    pub(super) truths: u64,
    /// How long it took, until the liar was gone.
    pub(super) took: Duration,
    pub(super) wakes: u64,
    pub(super) troubles: u64,
    pub(super) operations: u64,
    pub(super) granted: usize,
    /// Granted without the index.
    pub(super) degraded: usize,
    pub(super) violations: Vec<Violation>,
}

/// Leads all replicas to a liar while clients work, and holds the outcome against what must be true whatever Redis says.
pub(super) async fn before_a_liar(stage: &Stage, plan: &Plan, place: &Place) -> Result<Lies> {
    place.write_plan(plan)?;
    stage.restart_without("", LIARS_SCALE).await?;
    let log = Log::create(&place.history())?;
    let world = world(stage, plan, &log)?;
    dump::seed(&world.wire, plan).await?;
    let port = stage.ports.borrow_mut().take()?;
    let truth = stage.redis_port().await;
    let liar = Liar::start(&stage.network, port, truth, plan.seed)?;
    stage.lead_redis_to(liar.port());
    phase(&log, "liar");
    let clients = Clients::start(&world, plan);
    let began = Instant::now();
    let longest = Instant::now() + Duration::from_millis(plan.profile.liar_ms);
    while liar.lies() < plan.profile.lies && Instant::now() < longest {
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    // Nobody can be served in order before a liar, and some would wait for ever. The index that it left behind is none.
    dump::ask_redis(truth, &["FLUSHALL"]).await?;
    stage.lead_redis_to(truth);
    let took = began.elapsed();
    let stuck = clients.rest(REST_WITHIN).await;
    if stuck > 0 {
        eprintln!("chaos: {stuck} clients did not come to an end before the liar");
    }
    write_down(stage, plan, place, &world, &log).await?;
    let verdict = judge(place)?;
    let order = [Invariant::I11, Invariant::I12, Invariant::I14];
    let violations = verdict.violations.into_iter();
    Ok(Lies {
        told: liar.lies(),
        by_kind: liar.by_kind(),
        truths: liar.truths(),
        took,
        wakes: liar.wakes(),
        troubles: liar.troubles(),
        operations: log.operations(),
        granted: verdict.figures.granted,
        degraded: verdict.figures.degraded,
        violations: violations
            .filter(|it| !order.contains(&it.invariant))
            .collect(),
    })
}

/// The profile of the part before a liar: mostly those who wait.
pub(super) fn liars_profile(profile: &Profile) -> Profile {
    Profile {
        native: 5,
        primitive: 1,
        terraform: 2,
        late: 1,
        queuers: 30,
        readers: 0,
        ..profile.clone()
    }
}

pub(super) fn phase(log: &Log, name: &str) {
    log.note(Event::Phase {
        name: name.to_owned(),
    });
}
