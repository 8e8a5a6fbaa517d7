//! Working on jobs: claim one, keep its lease while a thread works on it, and see to how it ends.

use std::sync::Arc;
use std::time::Duration;

use store::jobs::{Job, JobKind, JobStatus};
use store::queue::{self, Claimed, Task};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attempt::{Attempt, Counts, StopSign, begin_held};
use super::clean::Unhappy;
use super::outcome::{Failure, Stop};
use super::{Archives, export, import};
use crate::EngineError;

/// How a worker works.
#[derive(Debug, Clone, Copy)]
pub struct WorkSettings {
    /// How long a job is a worker's without a sign of life.
    pub lease: Duration,
    /// Failures of its own after which a job is given up.
    pub failures: i32,
    /// Workers that a job may outlive before it is suspected to kill them.
    pub abandonments: i32,
    /// The pause after the first failure; it doubles.
    pub pause: Duration,
}

impl Default for WorkSettings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(60),
            failures: 5,
            abandonments: 20,
            pause: Duration::from_secs(5),
        }
    }
}

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_mins(10);

/// The longest time between two signs of life: progress is told with them, and a cancellation heard.
const LONGEST_SILENCE: Duration = Duration::from_secs(2);

/// What became of a claimed task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Done,
    Failed,
    Cancelled,
    /// Another attempt will follow.
    Again,
    /// It is another worker's now.
    Lost,
    Cleaned,
}

impl Archives {
    /// Takes the next task there is.
    pub async fn claim(&self, settings: &WorkSettings) -> Result<Option<Claimed>, EngineError> {
        let lease = seconds(settings.lease);
        Ok(queue::claim(&self.engine.db, lease, self.limits.jobs_at_once).await?)
    }

    /// Works on a claimed task until it has ended, or until `drain` asks to give it back.
    pub async fn work(
        &self,
        claimed: Claimed,
        settings: &WorkSettings,
        drain: &CancellationToken,
    ) -> Ending {
        match self.try_work(&claimed, settings, drain).await {
            Ok(ending) => ending,
            Err(Failure::Stopped(_)) => Ending::Lost,
            Err(failure) => {
                // Could not even be ended. The lease runs out, and somebody tries again.
                tracing::error!(job.id = %claimed.job, reason = ?failure, "a job could not be brought to an end for now");
                Ending::Again
            }
        }
    }

    async fn try_work(
        &self,
        claimed: &Claimed,
        settings: &WorkSettings,
        drain: &CancellationToken,
    ) -> Result<Ending, Failure> {
        let mut tx = begin_held(self, claimed).await?;
        let Some(job) = store::jobs::find_job(&mut tx, claimed.job).await? else {
            queue::dequeue(&mut tx, claimed.job).await?;
            tx.commit().await?;
            return Ok(Ending::Cleaned);
        };
        if claimed.task == Task::Clean {
            tx.commit().await?;
            let ended = job.status.has_ended();
            self.clean(claimed, &job).await?;
            return Ok(if ended {
                Ending::Cleaned
            } else {
                Ending::Failed
            });
        }
        store::jobs::begin_attempt(&mut tx, job.id, claimed.abandoned).await?;
        tx.commit().await?;
        if job.cancel_asked {
            return self.give_up(claimed, &job, None).await;
        }
        if job.abandoned + i32::from(claimed.abandoned) > settings.abandonments {
            let detail = format!("{} workers died of it", job.abandoned + 1);
            return self
                .give_up(claimed, &job, Some(("gave_up", &detail)))
                .await;
        }
        match self.attempt(claimed, &job, settings, drain).await {
            Ok(()) => Ok(Ending::Done),
            Err(failure) => self.end_attempt(claimed, &job, settings, failure).await,
        }
    }

    /// Removes what earlier attempts left, then runs the job, and keeps its lease meanwhile: either may take longer
    /// than one lasts.
    async fn attempt(
        &self,
        claimed: &Claimed,
        job: &Job,
        settings: &WorkSettings,
        drain: &CancellationToken,
    ) -> Result<(), Failure> {
        let stop = Arc::new(StopSign::default());
        let counts = Arc::new(Counts::default());
        let work = async {
            self.clean_leftovers(claimed, job, &stop).await?;
            self.run(claimed, job, &stop, &counts).await
        };
        let mut work = std::pin::pin!(work);
        let beats = self.keep_lease(claimed, settings, &stop, &counts);
        let mut beats = std::pin::pin!(beats);
        let longest = Duration::from_secs(self.limits.attempt_seconds);
        let mut longest = std::pin::pin!(tokio::time::sleep(longest));
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = &mut beats => {
                    // The work notices the sign at its next step.
                    return work.await;
                }
                () = &mut longest, if stop.raised().is_none() => stop.raise(Stop::TooLong),
                () = drain.cancelled(), if stop.raised().is_none() => stop.raise(Stop::Draining),
            }
        }
    }

    /// Runs the job on a thread of its own.
    async fn run(
        &self,
        claimed: &Claimed,
        job: &Job,
        stop: &Arc<StopSign>,
        counts: &Arc<Counts>,
    ) -> Result<(), Failure> {
        let kind = job.kind;
        let attempt = Attempt {
            archives: self.clone(),
            claimed: claimed.clone(),
            job: job.clone(),
            stop: Arc::clone(stop),
            counts: Arc::clone(counts),
            handle: Handle::current(),
        };
        let span = tracing::Span::current();
        let work = tokio::task::spawn_blocking(move || {
            let _entered = span.entered();
            match kind {
                JobKind::Export => export::run(&attempt),
                JobKind::Import => import::run(&attempt),
            }
        });
        work.await.unwrap_or_else(|_| {
            // What a panic says may hold data; where it was is in the log.
            Err(Failure::Passing("the attempt panicked".to_owned()))
        })
    }

    /// Renews the lease and reports progress until it is lost or the job is to stop.
    async fn keep_lease(
        &self,
        claimed: &Claimed,
        settings: &WorkSettings,
        stop: &StopSign,
        counts: &Counts,
    ) {
        let mut good_until = Instant::now() + settings.lease;
        loop {
            tokio::time::sleep((settings.lease / 4).min(LONGEST_SILENCE)).await;
            let asked = Instant::now();
            match self.beat(claimed, settings, counts).await {
                Ok(true) => {
                    stop.raise(Stop::Cancelled);
                    good_until = asked + settings.lease;
                }
                Ok(false) => good_until = asked + settings.lease,
                Err(Failure::Stopped(_)) => return stop.raise(Stop::Lost),
                Err(failure) => {
                    tracing::warn!(job.id = %claimed.job, reason = ?failure, "a lease was not renewed");
                    if Instant::now() >= good_until {
                        return stop.raise(Stop::Lost);
                    }
                }
            }
        }
    }

    /// One sign of life; answers whether the job is to stop.
    async fn beat(
        &self,
        claimed: &Claimed,
        settings: &WorkSettings,
        counts: &Counts,
    ) -> Result<bool, Failure> {
        let progress = super::json(&counts.read());
        let mut tx = self.engine.db.begin(&claimed.workspace).await?;
        let cancelled = store::jobs::record_progress(&mut tx, claimed.job, &progress).await?;
        if !queue::renew(&mut tx, claimed, seconds(settings.lease)).await? {
            return Err(Failure::Stopped(Stop::Lost));
        }
        tx.commit().await?;
        Ok(cancelled)
    }

    async fn end_attempt(
        &self,
        claimed: &Claimed,
        before: &Job,
        settings: &WorkSettings,
        failure: Failure,
    ) -> Result<Ending, Failure> {
        // What the attempt noted meanwhile, an unfinished object above all.
        let mut tx = begin_held(self, claimed).await?;
        let job = store::jobs::find_job(&mut tx, claimed.job).await?;
        tx.commit().await?;
        let job = job.unwrap_or_else(|| before.clone());
        match failure {
            Failure::Stopped(Stop::Cancelled) => self.give_up(claimed, &job, None).await,
            Failure::Stopped(Stop::Lost) => Ok(Ending::Lost),
            Failure::Stopped(Stop::TooLong) => {
                let most = self.limits.attempt_seconds;
                let detail = format!("a worker was at it for longer than {most} seconds");
                self.give_up(claimed, &job, Some(("over_time", &detail)))
                    .await
            }
            Failure::Stopped(Stop::Draining) => {
                self.put_back(claimed, &job, None, Duration::ZERO).await
            }
            Failure::Final { code, detail } => {
                self.give_up(claimed, &job, Some((&code, &detail))).await
            }
            Failure::Passing(detail) if job.failures + 1 >= settings.failures => {
                let detail = format!("after {} attempts: {detail}", job.attempt);
                self.give_up(claimed, &job, Some(("gave_up", &detail)))
                    .await
            }
            Failure::Passing(detail) => {
                tracing::warn!(job.id = %job.id, attempt = job.attempt, reason = %detail, "an attempt at a job failed");
                let doubled = settings.pause * 2_u32.saturating_pow(job.failures.unsigned_abs());
                let pause = doubled.min(LONGEST_PAUSE);
                self.put_back(claimed, &job, Some(&detail), pause).await
            }
        }
    }

    /// Ends a job that will not be done: cancelled, or failed with a code and a reason.
    async fn give_up(
        &self,
        claimed: &Claimed,
        job: &Job,
        error: Option<(&str, &str)>,
    ) -> Result<Ending, Failure> {
        let (status, ending) = match error {
            None => (JobStatus::Cancelled, Ending::Cancelled),
            Some(_) => (JobStatus::Failed, Ending::Failed),
        };
        if let Some((code, detail)) = error {
            tracing::warn!(job.id = %job.id, code, reason = detail, "a job has failed");
        }
        self.end_unhappily(claimed, job, &Unhappy { status, error })
            .await?;
        Ok(ending)
    }

    /// Gives the task back for another attempt.
    async fn put_back(
        &self,
        claimed: &Claimed,
        job: &Job,
        failure: Option<&str>,
        pause: Duration,
    ) -> Result<Ending, Failure> {
        let mut tx = begin_held(self, claimed).await?;
        store::jobs::fail_attempt(&mut tx, job.id, failure.is_some()).await?;
        queue::enqueue(&mut tx, job.id, claimed.task, seconds(pause)).await?;
        tx.commit().await?;
        Ok(Ending::Again)
    }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}
