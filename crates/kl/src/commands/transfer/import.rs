//! `kl import archive`: checked here, uploaded in parts, checked again and restored by a job.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use protocol::JobId;
use protocol::archives::{ImportRequest, JobStatus, PART_BYTES, UploadPart};
use sha2::{Digest as _, Sha256};

use super::{HashSink, PAUSE, VAIN_TRIES, hex};
use crate::cli::ImportArchiveArgs;
use crate::client::{Client, Place};
use crate::commands::Context;
use crate::commands::archive::{ArchiveFile, Limits};
use crate::commands::jobs::{follow, get, print};
use crate::failure::{Failure, Result};
use crate::output::progress::Progress;

/// The header that binds an address to the bytes of a part, in base64.
const CHECKSUM: &str = "x-amz-checksum-sha256";

pub(in crate::commands) async fn import(args: ImportArchiveArgs, context: &Context) -> Result<()> {
    let limits = Limits::memory_mib(args.memory);
    let checked = ArchiveFile::open(&args.file, limits, context.printer).await?;
    let client = context.client()?;
    let place = context.place(&client).await?;
    let id = match args.resume {
        // What was completed before is only followed.
        Some(id) if get(&client, &place, id).await?.status != JobStatus::Uploading => {
            if args.no_wait {
                return print(&get(&client, &place, id).await?, context);
            }
            return print(&follow(&client, &place, id, context).await?, context);
        }
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
                tokio::time::sleep(PAUSE).await;
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
    let announced = part.headers.get(CHECKSUM);
    let checksum = STANDARD.encode(Sha256::digest(&bytes));
    if announced.is_some_and(|announced| *announced != checksum) {
        return Err(Failure::failed(format!(
            "{} is not the archive that the job was asked for",
            path.display()
        )));
    }
    Ok(bytes.into())
}
