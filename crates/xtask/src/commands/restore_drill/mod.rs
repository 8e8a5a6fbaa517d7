//! `cargo xtask restore-drill`: the database is lost and comes back older than what clients were told.
//!
//! Real processes and a real backup: `pg_basebackup` of the running cluster, more work, the server killed and started
//! again from the copy. Every step is held against what must be true, and what must never be lost.

mod drill;

use anyhow::Result;
use clap::Args;

use crate::checks::Checks;
use crate::host::workspace::{Profile, Workspace};
use crate::stack::postgres::Durability;
use crate::stack::{Stack, StackOptions};

/// Lose the database, restore a backup, and show that no version, token or upload is given out twice or lost.
///
/// One line per check; ends with 1 if any does not hold.
#[derive(Args, Debug)]
pub(crate) struct RestoreDrillArgs {
    /// Build optimised.
    #[arg(long)]
    release: bool,
}

pub(crate) async fn run(args: &RestoreDrillArgs) -> Result<u8> {
    let workspace = Workspace::locate()?;
    let options = StackOptions::pair(
        Profile::from_release_flag(args.release),
        Durability::Durable,
    );
    let mut stack = Stack::start(&workspace, options).await?;
    let mut checks = Checks::default();
    let driven = drill::run(&mut stack, &mut checks).await;
    checks.end(driven, &mut stack)
}
