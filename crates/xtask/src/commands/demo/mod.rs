//! `cargo xtask demo`: the whole story on one screen, with the real terraform.
//!
//! Nothing is staged: every line shown is what a program printed, and every claim is checked. A chapter that does not
//! hold ends the demo with an error.

mod cost;
mod narrator;
mod native;
mod story;

use anyhow::Result;
use clap::Args;

use crate::host::workspace::{Profile, Workspace};
use crate::stack::postgres::Durability;
use crate::stack::{Stack, StackOptions};
use crate::terraform::Terraform;

use narrator::Narrator;

/// Show what Kilolock does, on a throw-away stack of two replicas, with the terraform on your path.
///
/// Plain terraform at work, a second terraform told who holds the lock, a crashed one cleaned up after, the history
/// byte for byte; then the native lane: eight teams applying at once, a failing apply, a dead runner, saved plans, a
/// scope that cannot be proven; and what one changed resource costs in a 50 MB state next to Terraform's own `pg` backend.
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Build optimised first, for figures that mean something.
    #[arg(long)]
    release: bool,
    /// Skip the 50 MB chapter.
    #[arg(long)]
    quick: bool,
}

pub(crate) async fn run(args: &DemoArgs) -> Result<u8> {
    let terraform = Terraform::find()?;
    let workspace = Workspace::locate()?;
    // The figures of the last chapter are bytes and seconds on disk.
    let options = StackOptions::pair(
        Profile::from_release_flag(args.release),
        Durability::Durable,
    );
    let stack = Stack::start(&workspace, options).await?;
    let kl = workspace.bin_dir(options.profile).join("kl");

    let mut narrator = Narrator::default();
    story::tell(&mut narrator, &terraform, &stack, &kl).await?;
    native::tell(&mut narrator, &terraform, &stack, &kl).await?;
    if !args.quick {
        cost::compare(&mut narrator, &terraform, &stack, &workspace).await?;
    }
    narrator.chapter("That is all. Everything is being removed again.");
    Ok(0)
}
