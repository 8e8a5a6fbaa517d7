//! `kl archive`: verifying, showing, extracting and comparing archive files, without a server.
//!
//! Every command verifies the whole file before it says anything about its content.

mod diff;
mod extract;
mod file;
mod show;

pub(super) use self::file::{ArchiveFile, Limits, readable};
use crate::cli::ArchiveCommand;
use crate::failure::Result;
use crate::output::Printer;

/// Runs a command on a runtime of its own: it needs no settings.
pub(super) fn run(command: &ArchiveCommand, printer: Printer) -> Result<()> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async {
            match command {
                ArchiveCommand::Verify(args) => show::verify(args, printer).await,
                ArchiveCommand::Show(args) => show::show(args, printer).await,
                ArchiveCommand::Extract(args) => extract::run(args, printer).await,
                ArchiveCommand::Diff(args) => diff::run(args, printer).await,
            }
        })
}
