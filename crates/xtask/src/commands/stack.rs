//! `cargo xtask stack -- CMD…`: run a command inside a throw-away stack.

use std::ffi::OsString;
use std::num::NonZeroU8;
use std::path::Path;

use anyhow::Result;
use clap::Args;
use tokio::process::Command;

use crate::host::foreground::{self, Foreground, exit_code};
use crate::host::process::{StopWith, supervised};
use crate::host::workspace::{Profile, Workspace};
use crate::stack::postgres::Durability;
use crate::stack::{ObjectStorage, Stack, StackOptions};

/// Run CMD inside a throw-away Kilolock and hand on its exit code.
///
/// Brings up Postgres, Redis, N replicas of kld (behind HAProxy when N > 1), an archive worker and tenants to act as, runs CMD, and
/// removes everything again, also on Ctrl-C. Missing services are installed by apt when run as root.
#[derive(Args, Debug)]
#[command(after_long_help = VARIABLES)]
pub(crate) struct StackArgs {
    #[command(flatten)]
    shape: ShapeArgs,
    /// Keep the logs when CMD fails.
    #[arg(long)]
    keep: bool,
    /// The command to run, with its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// What the stack consists of; the same flags for every command that starts one.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ShapeArgs {
    /// How many replicas of kld; more than one stand behind HAProxy.
    #[arg(long, default_value = "1", value_name = "N")]
    pub(crate) replicas: NonZeroU8,
    /// Build kld and kl optimised.
    #[arg(long)]
    pub(crate) release: bool,
    /// Run Postgres with its durable defaults (fsync on), for figures that mean something.
    #[arg(long)]
    pub(crate) durable: bool,
    /// Run an S3 server too, and keep archives in it; otherwise a folder holds them.
    #[arg(long)]
    pub(crate) s3: bool,
}

impl From<ShapeArgs> for StackOptions {
    fn from(args: ShapeArgs) -> Self {
        Self {
            replicas: args.replicas,
            profile: Profile::from_release_flag(args.release),
            durability: Durability::from_durable_flag(args.durable),
            object_storage: if args.s3 {
                ObjectStorage::S3
            } else {
                ObjectStorage::Without
            },
        }
    }
}

const VARIABLES: &str = "\
CMD finds in its environment:
  KL_STACK_URL              where clients connect (the balancer when N > 1)
  KL_STACK_REPLICA_URLS     every replica, separated by spaces
  KL_STACK_METRICS_URLS     every replica's /metrics
  KL_STACK_WORKER_METRICS_URL  the archive worker's /metrics
  KL_STACK_DATABASE_URL     Postgres, as the superuser of the throw-away cluster
  KL_STACK_REDIS_URL        Redis
  KL_STACK_WORKSPACE        a workspace (ws_…)
  KL_STACK_ENV, _ENV2       two environments of it (env_…)
  KL_STACK_TOKEN            a writer of it
  KL_STACK_READER_TOKEN     a reader of it
  KL_STACK_ADMIN_TOKEN      an admin of it
  KL_STACK_OTHER_WORKSPACE, KL_STACK_OTHER_ENV, KL_STACK_OTHER_TOKEN
                            another workspace, its environment, a writer of it
  KL_STACK_OPERATOR_TOKEN   the operator of the deployment
  KL_STACK_S3_ENDPOINT, KL_STACK_S3_ACCESS_KEY, KL_STACK_S3_SECRET_KEY, KL_STACK_S3_BUCKET
                            with --s3
  KL_STACK_DIR              holds NAME.log of every process
  KL_STACK_PIDS             a file with a line `name pid` per process
and `kl`, `kld` and `archive-worker` first on its PATH.

Example:
  cargo xtask stack --replicas 2 -- sh -c 'curl -sf $KL_STACK_URL/readyz'";

pub(crate) async fn run(args: StackArgs) -> Result<u8> {
    let workspace = Workspace::locate()?;
    let options = StackOptions::from(args.shape);
    let mut stack = Stack::start(&workspace, options).await?;

    let [program, arguments @ ..] = args.command.as_slice() else {
        unreachable!("clap requires CMD");
    };
    let mut command: Command = supervised(Path::new(program), None, StopWith::Terminate).into();
    command.args(arguments);
    stack.prepare(&mut command, &workspace.bin_dir(options.profile))?;
    let code = exit_code(Foreground::spawn(command)?.wait().await?);

    if code != 0 {
        let shown = foreground::display_args(&args.command);
        let dir = stack.databases.scratch.path().display();
        if args.keep {
            eprintln!("xtask: `{shown}` ended with {code}; the services' logs are in {dir}");
            stack.databases.scratch.keep_logs();
        } else {
            eprintln!(
                "xtask: `{shown}` ended with {code}; run with --keep to keep the services' logs (this time in {dir})"
            );
        }
    }
    Ok(code)
}
