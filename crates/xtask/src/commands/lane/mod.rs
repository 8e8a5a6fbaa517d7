//! `cargo xtask lane`: the real terraform, command by command, against a stack.
//!
//! Terraform speaks to an http backend by a sequence of requests that is fixed for each command. The script holds
//! every command against its sequence as it was observed with Terraform 1.11 (from 1.15 on each begins with one more
//! GET), so that an answer which makes terraform retry, read again or give up shows here and not at a user's desk.

mod script;
mod steps;

use anyhow::Result;
use clap::Args;

use super::stack::ShapeArgs;
use crate::host::workspace::Workspace;
use crate::stack::{Stack, StackOptions};
use crate::terraform::Terraform;

use steps::Lane;

/// Drive the real terraform through all its state commands and compare the requests each makes with those it must make.
///
/// One line per command; L, G, P, U are LOCK, GET, POST, UNLOCK, with the status where it is not 200.
#[derive(Args, Debug)]
pub(crate) struct LaneArgs {
    #[command(flatten)]
    shape: ShapeArgs,
}

pub(crate) async fn run(args: &LaneArgs) -> Result<u8> {
    let terraform = Terraform::find()?;
    let workspace = Workspace::locate()?;
    let stack = Stack::start(&workspace, StackOptions::from(args.shape)).await?;
    drive(&terraform, &stack).await
}

/// Runs the whole script; answers the exit code.
pub(crate) async fn drive(terraform: &Terraform, stack: &Stack) -> Result<u8> {
    let mut lane = Lane::open(terraform, stack).await?;
    script::run(&mut lane).await?;
    Ok(lane.close())
}
