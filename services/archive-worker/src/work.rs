//! The loop that claims jobs and works on them, a bounded number at a time.

use std::time::Duration;

use engine::archive::{Archives, Ending, WorkSettings};
use store::Db;
use store::queue::WakeUps;
use telemetry::JobEnding;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

/// An idle worker looks for itself this often: a call that was lost costs no more.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The pause after the database or its connection was away.
const PAUSE: Duration = Duration::from_secs(1);

/// When to stop: first no more jobs are taken, then those that run are given back.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    pub no_more: CancellationToken,
    pub give_back: CancellationToken,
}

/// Works until told to stop, and returns when nothing runs any more.
pub async fn run(db: Db, archives: Archives, settings: WorkSettings, jobs: usize, stop: Stop) {
    let mut running = JoinSet::new();
    let mut wake_ups = None;
    while !stop.no_more.is_cancelled() {
        while running.try_join_next().is_some() {}
        if running.len() < jobs {
            match archives.claim(&settings).await {
                Ok(Some(claimed)) => {
                    let span = tracing::info_span!(
                        "job", job.id = %claimed.job, workspace.id = %claimed.workspace, task = ?claimed.task
                    );
                    let (archives, give_back) = (archives.clone(), stop.give_back.clone());
                    telemetry::job_started();
                    let work = async move {
                        tracing::info!("began");
                        let ending = archives.work(claimed, &settings, &give_back).await;
                        tracing::info!(?ending, "ended");
                        telemetry::job_ended(label(ending));
                    };
                    running.spawn(work.instrument(span));
                    continue;
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(error = %telemetry::Chain(&error), "could not look for jobs");
                    wake_ups = None;
                    pause(&stop, PAUSE).await;
                    continue;
                }
            }
        }
        if wake_ups.is_none() {
            match WakeUps::listen(&db).await {
                // What was queued before anybody listened is found at the next look.
                Ok(listening) => {
                    wake_ups = Some(listening);
                    continue;
                }
                Err(error) => {
                    tracing::warn!(error = %telemetry::Chain(&error), "could not listen for jobs");
                }
            }
        }
        let woken = async {
            match &mut wake_ups {
                Some(wake_ups) => wake_ups.next().await.is_ok(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            heard = woken => if !heard { wake_ups = None },
            Some(_) = running.join_next(), if !running.is_empty() => {}
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            () = stop.no_more.cancelled() => {}
        }
    }
    while running.join_next().await.is_some() {}
}

async fn pause(stop: &Stop, duration: Duration) {
    tokio::select! {
        () = tokio::time::sleep(duration) => {}
        () = stop.no_more.cancelled() => {}
    }
}

fn label(ending: Ending) -> JobEnding {
    match ending {
        Ending::Done => JobEnding::Done,
        Ending::Failed => JobEnding::Failed,
        Ending::Cancelled => JobEnding::Cancelled,
        Ending::Again => JobEnding::Again,
        Ending::Lost => JobEnding::Lost,
        Ending::Cleaned => JobEnding::Cleaned,
    }
}
