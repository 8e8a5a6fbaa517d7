//! `kl export state` and `kl import archive`: archives on their way out and in, each able to go on where it broke off.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::StreamExt as _;
use protocol::JobId;
use protocol::archives::{ImportRequest, Job, PART_BYTES, UploadPart};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::archive::{ArchiveFile, Limits};
use super::jobs::{follow, print};
use super::{Context, status};
use crate::cli::{ExportArgs, ImportArchiveArgs};
use crate::client::{ApiError, Client, Place};
use crate::failure::{Failure, Result};
use crate::output::progress::Progress;
use crate::output::target::private_file;

/// Transfers that got nowhere in a row, after which the network is to blame.
const VAIN_TRIES: u32 = 5;
/// The memory for checking a download, in MiB: what the server allows itself.
const CHECK_MEMORY: u64 = 1024;

/// An archive that was downloaded and checked.
#[derive(Serialize)]
pub(super) struct Saved {
    file: PathBuf,
    bytes: u64,
    job: Job,
}

impl Saved {
    pub(super) fn print(saved: &Self, context: &Context) -> Result<()> {
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

pub(super) async fn export(args: ExportArgs, context: &Context) -> Result<()> {
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
pub(super) async fn download(
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
    let mut vain = 0;
    while at < archive.size_bytes {
        let before = at;
        let fetched = fetch(client, place, job.id, &mut file, &mut at, &progress).await?;
        if let Err(error) = fetched {
            vain = if at > before { 0 } else { vain + 1 };
            if vain >= VAIN_TRIES {
                return Err(Failure::from(error).context("the download broke off"));
            }
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        }
    }
    progress.finish();
    file.sync_all().map_err(|error| named(error.into()))?;
    drop(file);
    if hash_file(&partial).await? != archive.sha256 {
        _ = std::fs::remove_file(&partial);
        return Err(Failure::failed(
            "what arrived is not the archive that was written; it was thrown away",
        ));
    }
    let mut limits = Limits::memory_mib(CHECK_MEMORY);
    limits.keys = vec![super::archive::readable(&archive.public_key)?];
    ArchiveFile::open(&partial, limits, context.printer).await?;
    std::fs::rename(&partial, out).map_err(|error| named(error.into()))?;
    Ok(Saved {
        file: out.to_owned(),
        bytes: archive.size_bytes,
        job,
    })
}

/// Fetches what is missing, as far as the connection carries. The outer failure is one that trying again does not mend.
async fn fetch(
    client: &Client,
    place: &Place,
    id: JobId,
    file: &mut File,
    at: &mut u64,
    progress: &Progress,
) -> Result<Result<(), ApiError>> {
    let signed = client.sign_download(place, id).await.map_err(|error| {
        Failure::from(error).context("could not get an address to download from")
    })?;
    let response = match client.fetch_signed(&signed.url, *at).await {
        Ok(response) => response,
        Err(error) => return Ok(Err(error)),
    };
    if *at > 0 && response.status() != reqwest::StatusCode::PARTIAL_CONTENT {
        // A server that begins anew is begun anew with.
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        progress.restart();
        *at = 0;
    }
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        match piece {
            Ok(piece) => {
                file.write_all(&piece)?;
                *at += piece.len() as u64;
                progress.advance(piece.len());
            }
            Err(error) => return Ok(Err(ApiError::unreachable(client.server(), &error))),
        }
    }
    Ok(Ok(()))
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

struct HashSink<'a>(&'a mut Sha256);

impl std::io::Write for HashSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) async fn import(args: ImportArchiveArgs, context: &Context) -> Result<()> {
    let limits = Limits::memory_mib(args.memory);
    let checked = ArchiveFile::open(&args.file, limits, context.printer).await?;
    let client = context.client()?;
    let place = context.place(&client).await?;
    let id = match args.resume {
        Some(id) => id,
        None => ask(&args, &checked, &client, &place).await?,
    };
    upload(&args.file, &client, &place, id, context)
        .await
        .map_err(|failure| {
            failure.hint(format!(
                "run `kl import archive {} --resume {id}` to go on, or `kl jobs {id} --cancel`",
                args.file.display()
            ))
        })?;
    let job = client
        .complete_import(&place, id)
        .await
        .map_err(|error| Failure::from(error).context("could not complete the upload"))?;
    if args.no_wait {
        return print(&job, context);
    }
    let job = follow(&client, &place, id, context).await?;
    print(&job, context)
}

/// Reserves the name. Whatever is wrong with it is said here, before anything is uploaded.
async fn ask(
    args: &ImportArchiveArgs,
    checked: &ArchiveFile,
    client: &Client,
    place: &Place,
) -> Result<JobId> {
    let state = &checked.verified.info.state;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => state.name.parse().map_err(|error: protocol::InvalidName| {
            Failure::usage(format!("`{}` of the archive: {error}", state.name))
                .hint("give the state a name with `--as`")
        })?,
    };
    let wanted = ImportRequest {
        size_bytes: std::fs::metadata(&args.file)?.len(),
        parts: hash_parts(&args.file).await?,
        state_id: state.id.parse().ok(),
        archived: args.archived,
        overwrite: args.overwrite.clone(),
        allow_foreign: args.allow_foreign,
        name,
    };
    let job = client
        .create_import(place, &wanted)
        .await
        .map_err(|error| {
            let taken = matches!(error.code(), Some(protocol::Code::StateExists));
            let failure = Failure::from(error)
                .context(format!("could not import as state `{}`", wanted.name));
            if taken {
                failure.hint("nothing was uploaded; give it another name with `--as`")
            } else {
                failure
            }
        })?;
    Ok(job.id)
}

/// SHA-256 of each part of the file.
async fn hash_parts(path: &Path) -> Result<Vec<String>> {
    let path = path.to_owned();
    let hashed = tokio::task::spawn_blocking(move || {
        let mut file = File::open(path)?;
        let mut digests = Vec::new();
        loop {
            let mut hash = Sha256::new();
            let mut part = (&mut file).take(PART_BYTES);
            if std::io::copy(&mut part, &mut HashSink(&mut hash))? == 0 {
                return Ok::<_, std::io::Error>(digests);
            }
            digests.push(hex(&hash.finalize()));
        }
    });
    match hashed.await {
        Ok(digests) => Ok(digests?),
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

/// Puts every part that is missing.
async fn upload(
    path: &Path,
    client: &Client,
    place: &Place,
    id: JobId,
    context: &Context,
) -> Result<()> {
    let total = std::fs::metadata(path)?.len();
    let progress = Progress::transfer(context.printer, "sending", Some(total));
    let (mut vain, mut last_missing) = (0, u32::MAX);
    loop {
        let upload = client
            .list_missing_parts(place, id)
            .await
            .map_err(|error| Failure::from(error).context("could not ask what is missing"))?;
        if upload.parts.is_empty() {
            progress.finish();
            return Ok(());
        }
        vain = if upload.missing < last_missing {
            0
        } else {
            vain + 1
        };
        last_missing = upload.missing;
        for part in &upload.parts {
            let bytes = read_part(path, part)?;
            if let Err(error) = client.put_part(part, bytes, progress.clone()).await {
                if vain >= VAIN_TRIES {
                    progress.finish();
                    return Err(Failure::from(error).context("the upload broke off"));
                }
                tokio::time::sleep(std::time::Duration::from_millis(300)).await;
                break;
            }
        }
    }
}

fn read_part(path: &Path, part: &UploadPart) -> Result<Bytes> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(PART_BYTES * u64::from(part.number)))?;
    let mut bytes = Vec::with_capacity(usize::try_from(part.size_bytes).unwrap_or_default());
    file.take(part.size_bytes).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}
