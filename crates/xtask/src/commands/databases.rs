//! `cargo xtask databases -- CMD…`: run a command with the databases of the tests, and nothing else.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;
use clap::Args;
use tokio::process::Command;

use crate::host::foreground::{self, exit_code};
use crate::host::ports::Ports;
use crate::host::process::{StopWith, supervised};
use crate::host::workspace::{Workspace, forget_cargo_run};
use crate::stack::databases::Databases;
use crate::stack::postgres::Durability;

/// Run CMD with a throw-away Postgres and Redis, as the tests find them, and hand on its exit code.
///
/// CMD finds KL_TEST_DATABASE_URL (a superuser of the cluster), KL_TEST_REDIS_URL and KL_SHARED_DIR in its environment.
#[derive(Args, Debug)]
#[command(after_long_help = "Example:\n  cargo xtask databases -- cargo test -p store")]
pub(crate) struct DatabasesArgs {
    /// Keep Postgres's durable defaults (fsync on).
    #[arg(long)]
    durable: bool,
    /// The command to run, with its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) async fn run(args: DatabasesArgs) -> Result<u8> {
    let workspace = Workspace::locate()?;
    let durability = Durability::from_durable_flag(args.durable);
    let databases = Databases::start(&mut Ports::default(), durability).await?;

    let [program, arguments @ ..] = args.command.as_slice() else {
        unreachable!("clap requires CMD");
    };
    let mut command: Command = supervised(Path::new(program), None, StopWith::Terminate).into();
    command
        .args(arguments)
        .envs(databases.test_variables())
        .env("KL_SHARED_DIR", workspace.shared_dir());
    forget_cargo_run(&mut command);
    Ok(exit_code(foreground::run(command).await?))
}
