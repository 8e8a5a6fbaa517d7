//! `cargo xtask test`: all tests, with everything they need.

use anyhow::Result;
use clap::Args;
use tokio::process::Command;

use crate::host::foreground::{self, exit_code};
use crate::host::ports::Ports;
use crate::host::workspace::{Workspace, cargo};
use crate::stack::databases::Databases;
use crate::stack::postgres::Durability;

/// Run the tests of the whole workspace with a throw-away Postgres and Redis.
///
/// The tests find KL_TEST_DATABASE_URL (a superuser of the cluster; each test clones its own database from a migrated
/// template), KL_TEST_REDIS_URL and KL_SHARED_DIR in their environment.
#[derive(Args, Debug)]
#[command(
    after_long_help = "Example:\n  cargo xtask test lock    # every test with `lock` in its name"
)]
pub(crate) struct TestArgs {
    /// Run only tests whose names contain one of these.
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
}

pub(crate) async fn run(args: &TestArgs) -> Result<u8> {
    let workspace = Workspace::locate()?;
    let databases = Databases::start(&mut Ports::default(), Durability::FsyncOff).await?;

    let mut test = Command::new(cargo());
    test.args(["test", "--workspace", "--locked", "--no-fail-fast"])
        .current_dir(workspace.root())
        .envs(databases.test_variables())
        .env("KL_SHARED_DIR", workspace.shared_dir())
        // The committed query data is what others build with, so it is what is tested.
        .env_remove("DATABASE_URL")
        .env("SQLX_OFFLINE", "true");
    if !args.filters.is_empty() {
        test.arg("--").args(&args.filters);
    }
    Ok(exit_code(foreground::run(test).await?))
}
