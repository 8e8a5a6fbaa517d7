//! `cargo xtask mixed-mode`: plain Terraform and `kl` at work on one state, every pairing.
//!
//! Each row of the matrix is a holder that is really at work (an apply whose provisioner waits for a file), each column
//! somebody else who asks meanwhile: the real terraform, `kl` with the real terraform, or an API client where neither
//! has a command for it. Behind them stand the rules of what a plain client does on the wire.

mod matrix;
mod scene;
mod wire_rules;

use anyhow::Result;
use clap::Args;

use crate::checks::Checks;
use crate::host::workspace::{Profile, Workspace};
use crate::stack::postgres::Durability;
use crate::stack::{Stack, StackOptions};
use crate::terraform::Terraform;

use scene::Scene;

/// Let terraform and kl meet on one state in every combination, and hold what happens against the matrix.
///
/// One line per cell and per rule; ends with 1 if any does not hold. Two replicas behind HAProxy.
#[derive(Args, Debug)]
pub(crate) struct MixedModeArgs {
    /// Build optimised.
    #[arg(long)]
    release: bool,
}

pub(crate) async fn run(args: &MixedModeArgs) -> Result<u8> {
    let terraform = Terraform::find()?;
    let workspace = Workspace::locate()?;
    let options = StackOptions::pair(
        Profile::from_release_flag(args.release),
        Durability::FsyncOff,
    );
    let mut stack = Stack::start(&workspace, options).await?;
    let kl = workspace.bin_dir(options.profile).join("kl");
    on(&terraform, &mut stack, &kl).await
}

/// Fills the matrix on a stack; answers the exit code.
pub(crate) async fn on(
    terraform: &Terraform,
    stack: &mut Stack,
    kl: &std::path::Path,
) -> Result<u8> {
    let mut checks = Checks::default();
    let driven = drive(terraform, stack, kl, &mut checks).await;
    checks.end(driven, stack)
}

async fn drive(
    terraform: &Terraform,
    stack: &Stack,
    kl: &std::path::Path,
    checks: &mut Checks,
) -> Result<()> {
    let scene = Scene::set(terraform, stack, kl, "matrix").await?;
    matrix::check(&scene, checks).await?;
    let scene = Scene::set(terraform, stack, kl, "rules").await?;
    wire_rules::check(&scene, checks).await
}
