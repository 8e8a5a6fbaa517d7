//! `cargo xtask test`: all tests, with everything they need.

use anyhow::Result;
use clap::Args;

use super::{lane, mixed_mode};
use crate::host::foreground::{self, exit_code};
use crate::host::ports::Ports;
use crate::host::workspace::{Profile, Workspace};
use crate::stack::databases::Databases;
use crate::stack::postgres::Durability;
use crate::stack::{Stack, StackOptions};
use crate::terraform::Terraform;

/// Run the tests of the whole workspace with a throw-away Postgres and Redis.
///
/// The tests find KL_TEST_DATABASE_URL (a superuser of the cluster; each test clones its own database from a migrated
/// template), KL_TEST_REDIS_URL and KL_SHARED_DIR in their environment. Then the real terraform, if there is one on the
/// path, is driven against two replicas behind HAProxy (`cargo xtask lane --replicas 2`), and so is `kl` with it; both lanes meet (`mixed-mode`).
#[derive(Args, Debug)]
#[command(
    after_long_help = "Example:\n  cargo xtask test lock    # every test with `lock` in its name"
)]
pub(crate) struct TestArgs {
    /// Leave out the end-to-end part.
    #[arg(long)]
    no_end_to_end: bool,
    /// Run only tests whose names contain one of these, and nothing end to end.
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
}

pub(crate) async fn run(args: &TestArgs) -> Result<u8> {
    let workspace = Workspace::locate()?;
    let code = cargo_test(&workspace, &args.filters).await?;
    if code != 0 || args.no_end_to_end || !args.filters.is_empty() {
        return Ok(code);
    }
    end_to_end(&workspace).await
}

async fn cargo_test(workspace: &Workspace, filters: &[String]) -> Result<u8> {
    let databases = Databases::start(&mut Ports::default(), Durability::FsyncOff).await?;
    let test = |arguments: &[&str]| {
        let mut test = workspace.cargo();
        test.args(["test", "--locked", "--no-fail-fast"])
            .args(arguments)
            .envs(databases.test_variables())
            .env("KL_SHARED_DIR", workspace.shared_dir())
            // The committed query data is what others build with, so it is what is tested.
            .env_remove("DATABASE_URL")
            .env("SQLX_OFFLINE", "true");
        test
    };
    let mut all = test(&["--workspace"]);
    if !filters.is_empty() {
        all.arg("--").args(filters);
    }
    let code = exit_code(foreground::run(all).await?);
    if code != 0 || !filters.is_empty() {
        return Ok(code);
    }
    // The service with faults is another program of the same sources (docs/faults.md).
    let faults = test(&[
        "--package=locking",
        "--package=kld",
        "--features=locking/faults,kld/faults",
        "--lib",
        "--test=faults",
    ]);
    Ok(exit_code(foreground::run(faults).await?))
}

async fn end_to_end(workspace: &Workspace) -> Result<u8> {
    let Ok(terraform) = Terraform::find() else {
        eprintln!("xtask: no terraform on the path; the end-to-end tests are left out");
        return Ok(0);
    };
    let options = StackOptions::pair(Profile::Debug, Durability::FsyncOff);
    let mut stack = Stack::start(workspace, options).await?;
    let code = lane::drive(&terraform, &stack).await?;
    if code != 0 {
        return Ok(code);
    }
    let mut kl = workspace.cargo();
    kl.args(["test", "--package", "kl", "--test", "e2e", "--locked"])
        .args(["--", "--ignored"])
        .env_remove("DATABASE_URL")
        .env("SQLX_OFFLINE", "true");
    let bin_dir = workspace.bin_dir(Profile::Debug);
    stack.prepare(&mut kl, &bin_dir)?;
    let code = exit_code(foreground::run(kl).await?);
    if code != 0 {
        return Ok(code);
    }
    mixed_mode::on(&terraform, &mut stack, &bin_dir.join("kl")).await
}
