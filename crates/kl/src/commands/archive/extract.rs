//! `kl archive extract`: documents out of an archive.

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use archive::{ArchiveError, extract_all, extract_version};
use serde::Serialize;

use super::file::{ArchiveFile, Limits};
use crate::cli::ExtractArgs;
use crate::failure::{Failure, Kind, Result};
use crate::output::target::Target;
use crate::output::{ClosedPipe, Printer};

#[derive(Serialize)]
struct Extracted {
    files: Vec<ExtractedFile>,
}

#[derive(Serialize)]
struct ExtractedFile {
    seq: u64,
    file: PathBuf,
    bytes: u64,
}

pub(super) async fn run(args: &ExtractArgs, printer: Printer) -> Result<()> {
    let output = args
        .output
        .as_deref()
        .filter(|path| path.as_os_str() != "-");
    if printer.wants_json() && output.is_none() && args.all.is_none() {
        return Err(Failure::usage(
            "--json needs -o or --all: the document itself goes to stdout",
        ));
    }
    let limits = Limits::memory_mib(args.archive.memory);
    let archive = ArchiveFile::open(&args.archive.file, limits, printer).await?;
    let files = match (&args.all, output) {
        (Some(directory), _) => all(&archive, directory, printer).await?,
        (None, Some(path)) => vec![one(&archive, &args.version, path, printer).await?],
        (None, None) => return to_stdout(&archive, &args.version, printer).await,
    };
    let extracted = Extracted { files };
    if printer.wants_json() {
        return printer.result(&extracted, String::new);
    }
    for ExtractedFile { seq, file, bytes } in &extracted.files {
        printer.note(&format!(
            "wrote version {seq}, {bytes} bytes, to {}",
            file.display()
        ));
    }
    Ok(())
}

async fn to_stdout(archive: &ArchiveFile, version: &str, printer: Printer) -> Result<()> {
    let seq = archive.version(version)?;
    let closed = archive
        .read("extracting", printer, move |file, verified, policy| {
            let mut out = io::stdout().lock();
            let done = extract_version(file, verified, policy, seq, &mut out);
            match done {
                Err(ArchiveError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                    Ok(true)
                }
                Ok(()) => out.flush().map(|()| false).map_err(ArchiveError::Write),
                Err(error) => Err(error),
            }
        })
        .await?;
    if closed {
        return Err(Failure::new(Kind::Failed, ClosedPipe));
    }
    Ok(())
}

async fn one(
    archive: &ArchiveFile,
    version: &str,
    path: &Path,
    printer: Printer,
) -> Result<ExtractedFile> {
    let seq = archive.version(version)?;
    let file = path.to_owned();
    let bytes = archive
        .read("extracting", printer, move |input, verified, policy| {
            let mut target = Counting::open(&file).map_err(ArchiveError::Write)?;
            extract_version(input, verified, policy, seq, &mut target)?;
            target.finish().map_err(ArchiveError::Write)
        })
        .await?;
    let file = path.to_owned();
    Ok(ExtractedFile { seq, file, bytes })
}

async fn all(
    archive: &ArchiveFile,
    directory: &Path,
    printer: Printer,
) -> Result<Vec<ExtractedFile>> {
    std::fs::create_dir_all(directory).map_err(|error| {
        Failure::from(error).context(format!("could not make {}", directory.display()))
    })?;
    let directory = directory.to_owned();
    archive
        .read("extracting", printer, move |input, verified, policy| {
            let files = RefCell::new(Vec::new());
            extract_all(input, verified, policy, |entry| {
                let file = directory.join(format!("{}.tfstate", entry.meta.seq));
                let target = Counting::open(&file)?;
                files.borrow_mut().push(ExtractedFile {
                    seq: entry.meta.seq,
                    file,
                    bytes: entry.meta.bytes,
                });
                Ok(Finishing(target))
            })?;
            Ok(files.into_inner())
        })
        .await
}

/// A file being written, and how much has been.
struct Counting {
    target: Target,
    bytes: u64,
}

impl Counting {
    fn open(path: &Path) -> io::Result<Self> {
        let target = Target::open(path)?;
        Ok(Self { target, bytes: 0 })
    }

    fn finish(mut self) -> io::Result<u64> {
        self.target.finish()?;
        Ok(self.bytes)
    }
}

impl Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.target.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.file.flush()
    }
}

/// A file that takes its name when it is flushed, which `extract_all` does once a document is whole.
struct Finishing(Counting);

impl Write for Finishing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.target.finish()
    }
}
