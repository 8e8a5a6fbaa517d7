//! `kl pull`: a version's document, byte for byte.

use std::io::{self, Write as _};
use std::path::Path;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use serde::Serialize;

use super::version_ref::VersionRef;
use super::{Context, status};
use crate::cli::PullArgs;
use crate::client::ApiError;
use crate::failure::{Failure, Result};
use crate::output::progress::Progress;
use crate::output::target::Target;

#[derive(Serialize)]
struct Written<'a> {
    file: &'a Path,
    bytes: u64,
}

pub(super) async fn run(args: PullArgs, context: &Context) -> Result<()> {
    let output = args.output.filter(|path| path.as_os_str() != "-");
    if context.printer.wants_json() && output.is_none() {
        return Err(Failure::usage(
            "--json needs -o: the document itself goes to stdout",
        ));
    }
    let client = context.client()?;
    let state = context.state(&client).await?;
    let version = VersionRef::parse(&args.version)?;
    let (length, pieces) = client
        .get_document(&state, version.as_str())
        .await
        .map_err(|error| status::unreadable(error.into(), &state))?;
    let progress = Progress::transfer(context.printer, "receiving", length);
    let pieces = pieces.inspect(|piece| {
        if let Ok(piece) = piece {
            progress.advance(piece.len());
        }
    });
    let mut pieces = std::pin::pin!(pieces);
    match output {
        None => {
            while let Some(piece) = pieces.next().await {
                context.printer.bytes(&piece.map_err(cut)?)?;
            }
            progress.finish();
            Ok(())
        }
        Some(path) => {
            let bytes = to_file(&path, pieces).await?;
            progress.finish();
            let written = Written { file: &path, bytes };
            if context.printer.wants_json() {
                return context.printer.result(&written, String::new);
            }
            context
                .printer
                .note(&format!("wrote {bytes} bytes to {}", path.display()));
            Ok(())
        }
    }
}

fn cut(error: ApiError) -> Failure {
    Failure::from(error).context("the document broke off half-way")
}

/// Writes beside the target and renames, so that a half document never stands under its name.
async fn to_file(
    path: &Path,
    mut pieces: impl Stream<Item = Result<Bytes, ApiError>> + Unpin,
) -> Result<u64> {
    let mut target = Target::open(path).map_err(|error| unwritable(error, path))?;
    let mut bytes = 0;
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(cut)?;
        target
            .file
            .write_all(&piece)
            .map_err(|error| unwritable(error, path))?;
        bytes += piece.len() as u64;
    }
    target.finish().map_err(|error| unwritable(error, path))?;
    Ok(bytes)
}

fn unwritable(error: io::Error, path: &Path) -> Failure {
    Failure::from(error).context(format!("could not write {}", path.display()))
}
