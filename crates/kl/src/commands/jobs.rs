//! `kl jobs`: exports and imports; and following one until it has ended.

use std::time::Duration;

use protocol::JobId;
use protocol::archives::{Job, JobKind, JobStatus};
use serde::Serialize;

use super::transfer::{Saved, download};
use super::{Context, pages};
use crate::cli::JobsArgs;
use crate::client::{Client, Place};
use crate::failure::{Failure, Result};
use crate::output::progress::Progress;
use crate::output::table::Table;
use crate::output::time::when;

/// How often a job is asked for: often enough for a bar that moves, and seldom enough for an hour of it.
const ASK_AGAIN: Duration = Duration::from_millis(500);

#[derive(Serialize)]
struct View {
    jobs: Vec<Job>,
}

impl Context {
    /// The environment that jobs are asked for in.
    pub(super) async fn place(&self, client: &Client) -> Result<Place> {
        let environment = self.settings.environment()?.clone();
        Ok(Place {
            workspace: self.workspace(client).await?,
            environment,
        })
    }
}

pub(super) async fn run(args: JobsArgs, context: &Context) -> Result<()> {
    let client = context.client()?;
    let place = context.place(&client).await?;
    let Some(id) = args.job else {
        return list(&client, &place, args.limit, context).await;
    };
    if args.cancel {
        let job = client
            .cancel_job(&place, id)
            .await
            .map_err(|error| Failure::from(error).context(format!("could not cancel {id}")))?;
        return print(&job, context);
    }
    let job = if args.wait || args.out.is_some() {
        follow(&client, &place, id, context).await?
    } else {
        get(&client, &place, id).await?
    };
    match args.out {
        Some(file) => {
            let saved = download(&client, &place, job, &file, context).await?;
            Saved::print(&saved, context)
        }
        None => print(&job, context),
    }
}

pub(super) async fn get(client: &Client, place: &Place, id: JobId) -> Result<Job> {
    client
        .get_job(place, id)
        .await
        .map_err(|error| Failure::from(error).context(format!("could not read {id}")))
}

async fn list(client: &Client, place: &Place, limit: usize, context: &Context) -> Result<()> {
    let wanted = if limit == 0 { usize::MAX } else { limit };
    let jobs = if limit > 0 && limit <= 100 {
        client.list_jobs(place, None).await.map(|page| page.jobs)
    } else {
        pages::all(async |cursor| {
            let page = client.list_jobs(place, cursor.as_deref()).await?;
            Ok((page.jobs, page.next_cursor))
        })
        .await
    };
    let mut jobs = jobs.map_err(|error| Failure::from(error).context("could not list the jobs"))?;
    jobs.truncate(wanted);
    let view = View { jobs };
    context.printer.result(&view, || {
        let mut table = Table::new(&["JOB", "KIND", "STATE", "STATUS", "BY", "ASKED FOR"]);
        for job in &view.jobs {
            table.row([
                job.id.to_string(),
                kind(job.kind).to_owned(),
                job.state.to_string(),
                status(job),
                job.created_by.clone(),
                when(job.created_at, context.now),
            ]);
        }
        table.finish()
    })
}

/// Shows how far a job is until it has ended, and fails as it failed.
pub(super) async fn follow(
    client: &Client,
    place: &Place,
    id: JobId,
    context: &Context,
) -> Result<Job> {
    let progress = Progress::job(context.printer, &format!("{id} waits for a worker"));
    loop {
        let job = get(client, place, id).await?;
        if job.status.has_ended() {
            progress.finish();
            return ended(job);
        }
        if job.status == JobStatus::Uploading {
            progress.finish();
            return Err(Failure::failed(format!("{id} waits for its archive"))
                .hint(format!("run `kl import archive FILE --resume {id}`")));
        }
        if job.status == JobStatus::Running {
            let what = match job.kind {
                JobKind::Export => "writing",
                JobKind::Import if job.progress.versions_total == 0 => "checking",
                JobKind::Import => "restoring",
            };
            progress.set(what, job.progress.bytes_done, job.progress.bytes_total);
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

fn ended(job: Job) -> Result<Job> {
    let what = kind(job.kind);
    match (job.status, &job.error) {
        (JobStatus::Done, _) => Ok(job),
        (JobStatus::Cancelled, _) => Err(Failure::failed(format!(
            "the {what} of state `{}` was cancelled",
            job.state
        ))),
        (_, Some(error)) => Err(Failure::failed(error.detail.clone()).context(format!(
            "the {what} of state `{}` failed ({})",
            job.state, error.code
        ))),
        (_, None) => Err(Failure::failed(format!(
            "the {what} of state `{}` failed",
            job.state
        ))),
    }
}

pub(super) fn print(job: &Job, context: &Context) -> Result<()> {
    context.printer.result(job, || text(job, context))
}

fn text(job: &Job, context: &Context) -> String {
    let mut table = Table::without_headings();
    table.pair("job", job.id.to_string());
    table.pair("what", format!("{} of state {}", kind(job.kind), job.state));
    table.pair("status", status(job));
    table.pair(
        "asked for",
        format!(
            "{} by {}",
            when(job.created_at, context.now),
            job.created_by
        ),
    );
    if let Some(finished) = job.finished_at {
        table.pair("ended", when(finished, context.now));
    }
    if let Some(error) = &job.error {
        table.pair("because", format!("{} ({})", error.detail, error.code));
    }
    if let Some(archive) = &job.archive {
        table.pair(
            "archive",
            format!(
                "{} versions, {} bytes, signed by key {}",
                archive.versions, archive.size_bytes, archive.key_id
            ),
        );
        if let Some(expires) = job.expires_at {
            table.pair("kept until", when(expires, context.now));
        }
    }
    if let Some(imported) = &job.imported {
        table.pair(
            "restored",
            format!(
                "{} versions and {} tags as {}; signature: {}",
                imported.versions, imported.tags, imported.state_id, imported.origin
            ),
        );
        table.pair("new ids", imported.remapped.len().to_string());
    }
    table.finish()
}

fn kind(kind: JobKind) -> &'static str {
    match kind {
        JobKind::Export => "export",
        JobKind::Import => "import",
    }
}

/// The status, and how far it is.
fn status(job: &Job) -> String {
    let progress = &job.progress;
    match job.status {
        JobStatus::Uploading => "uploading".to_owned(),
        JobStatus::Queued => "queued".to_owned(),
        JobStatus::Running if job.cancel_asked => "ending".to_owned(),
        JobStatus::Running if progress.bytes_total > 0 => format!(
            "running, {} %",
            progress.bytes_done.saturating_mul(100) / progress.bytes_total
        ),
        JobStatus::Running => "running".to_owned(),
        JobStatus::Done => "done".to_owned(),
        JobStatus::Failed => "failed".to_owned(),
        JobStatus::Cancelled => "cancelled".to_owned(),
    }
}
