//! `kl export state`: a job writes the archive, and it is downloaded, checked, and only then named.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use futures::StreamExt as _;
use protocol::JobId;
use protocol::archives::Job;
use reqwest::header::{CONTENT_RANGE, ETAG, HeaderValue};
use reqwest::{Response, StatusCode};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{HashSink, PAUSE, VAIN_TRIES, hex};
use crate::cli::ExportArgs;
use crate::client::{ApiError, Client, Place};
use crate::commands::archive::{ArchiveFile, Limits, readable};
use crate::commands::jobs::{follow, print};
use crate::commands::{Context, status};
use crate::failure::{Failure, Result};
use crate::output::progress::Progress;
use crate::output::target::private_file;

/// The memory for checking a download, in MiB: what the server allows itself.
const CHECK_MEMORY: u64 = 1024;

/// An archive that was downloaded and checked.
#[derive(Serialize)]
pub(in crate::commands) struct Saved {
    file: PathBuf,
    bytes: u64,
    job: Job,
}

impl Saved {
    pub(in crate::commands) fn print(saved: &Self, context: &Context) -> Result<()> {
        context.printer.result(saved, || {
            let versions = saved
                .job
                .archive
                .as_ref()
                .map_or(0, |archive| archive.versions);
            format!(
                "{} holds {versions} versions of state {}, {} bytes, checked\n",
                saved.file.display(),
                saved.job.state,
                saved.bytes
            )
        })
    }
}

pub(in crate::commands) async fn export(args: ExportArgs, context: &Context) -> Result<()> {
    let client = context.client()?;
    let state = context.state(&client).await?;
    let place = Place {
        workspace: state.workspace.clone(),
        environment: state.environment.clone(),
    };
    let out = args
        .out
        .unwrap_or_else(|| PathBuf::from(format!("{}.{}", state.state, archive::EXTENSION)));
    // What cannot be written is better known before a job runs for it.
    if !args.no_wait && out.is_dir() {
        return Err(Failure::usage(format!("{} is a directory", out.display())));
    }
    let job = client
        .export_state(&state)
        .await
        .map_err(|error| status::unreadable(error.into(), &state))?;
    if args.no_wait {
        return print(&job, context);
    }
    let id = job.id;
    let job = follow(&client, &place, id, context).await?;
    let saved = download(&client, &place, job, &out, context)
        .await
        .map_err(|failure| {
            failure.hint(format!(
                "run `kl jobs {id} --out {}` to go on with the download",
                out.display()
            ))
        })?;
    Saved::print(&saved, context)
}

/// Downloads the archive of an export, going on where an earlier download broke off, and checks it before it gets its name.
pub(in crate::commands) async fn download(
    client: &Client,
    place: &Place,
    job: Job,
    out: &Path,
    context: &Context,
) -> Result<Saved> {
    let Some(archive) = job.archive.clone() else {
        return Err(Failure::failed(format!("{} made no archive", job.id)));
    };
    let partial = partial(out, job.id);
    let named = |failure: Failure| failure.context(format!("could not write {}", out.display()));
    let mut file = open_partial(&partial).map_err(named)?;
    let mut at = file.metadata().map_err(|error| named(error.into()))?.len();
    if at > archive.size_bytes {
        file.set_len(0).map_err(|error| named(error.into()))?;
        at = 0;
    }
    file.seek(SeekFrom::Start(at))
        .map_err(|error| named(error.into()))?;
    let progress = Progress::transfer(context.printer, "receiving", Some(archive.size_bytes));
    progress.advance(usize::try_from(at).unwrap_or_default());
    let mut arrival = Arrival {
        file,
        at,
        etag: None,
        progress: progress.clone(),
    };
    let mut vain = 0;
    while arrival.at < archive.size_bytes {
        let before = arrival.at;
        if let Err(error) = arrival.fetch(client, place, job.id).await? {
            vain = if arrival.at > before { 0 } else { vain + 1 };
            if vain >= VAIN_TRIES {
                return Err(Failure::from(error).context("the download broke off"));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    progress.finish();
    let synced = arrival.file.sync_all();
    synced.map_err(|error| named(error.into()))?;
    drop(arrival);
    if hash_file(&partial).await? != archive.sha256 {
        _ = std::fs::remove_file(&partial);
        return Err(Failure::failed(
            "what arrived is not the archive that was written; it was thrown away",
        ));
    }
    let mut limits = Limits::memory_mib(CHECK_MEMORY);
    limits.keys = vec![readable(&archive.public_key)?];
    ArchiveFile::open(&partial, limits, context.printer).await?;
    std::fs::rename(&partial, out).map_err(|error| named(error.into()))?;
    Ok(Saved {
        file: out.to_owned(),
        bytes: archive.size_bytes,
        job,
    })
}

/// An archive on its way in.
struct Arrival {
    file: File,
    /// Bytes that are there.
    at: u64,
    /// What the server called the object, once it did.
    etag: Option<HeaderValue>,
    progress: Progress,
}

impl Arrival {
    /// Fetches what is missing, as far as the connection carries. The outer failure is one that trying again does not mend.
    async fn fetch(
        &mut self,
        client: &Client,
        place: &Place,
        id: JobId,
    ) -> Result<Result<(), ApiError>> {
        let signed = client.sign_download(place, id).await.map_err(|error| {
            Failure::from(error).context("could not get an address to download from")
        })?;
        let answered = client.fetch_signed(&signed.url, self.at, self.etag.as_ref());
        let response = match answered.await {
            Ok(response) => response,
            Err(error) => return Ok(Err(error)),
        };
        if self.at > 0 && range_start(&response) != Some(self.at) {
            // A server that begins anew is begun anew with.
            self.begin_anew()?;
            if response.status() == StatusCode::PARTIAL_CONTENT {
                return Ok(Ok(()));
            }
        }
        self.etag = response.headers().get(ETAG).cloned();
        let mut pieces = response.bytes_stream();
        while let Some(piece) = pieces.next().await {
            match piece {
                Ok(piece) => {
                    self.file.write_all(&piece)?;
                    self.at += piece.len() as u64;
                    self.progress.advance(piece.len());
                }
                Err(error) => return Ok(Err(ApiError::unreachable(client.server(), &error))),
            }
        }
        Ok(Ok(()))
    }

    fn begin_anew(&mut self) -> Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.progress.restart();
        self.at = 0;
        Ok(())
    }
}

/// Where the range begins that a partial answer holds.
fn range_start(response: &Response) -> Option<u64> {
    if response.status() != StatusCode::PARTIAL_CONTENT {
        return None;
    }
    let range = response.headers().get(CONTENT_RANGE)?.to_str().ok()?;
    let (start, _) = range.strip_prefix("bytes ")?.split_once('-')?;
    start.parse().ok()
}

/// Where a download stands until it is whole: named by its job, so that it is gone on with and never mixed up.
fn partial(out: &Path, job: JobId) -> PathBuf {
    let mut name = out.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{job}.partial"));
    out.with_file_name(name)
}

fn open_partial(path: &Path) -> Result<File> {
    if path.exists() {
        return Ok(File::options().read(true).write(true).open(path)?);
    }
    Ok(private_file(path)?)
}

async fn hash_file(path: &Path) -> Result<String> {
    let path = path.to_owned();
    let hashed = tokio::task::spawn_blocking(move || {
        let mut hash = Sha256::new();
        std::io::copy(&mut File::open(path)?, &mut HashSink(&mut hash))?;
        Ok::<_, std::io::Error>(hex(&hash.finalize()))
    });
    match hashed.await {
        Ok(digest) => Ok(digest?),
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}
