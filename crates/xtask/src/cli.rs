//! The command line.

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::commands::{
    bench, chaos, databases, demo, generate, lane, lint, mixed_mode, restore_drill, s3_server,
    sqlx, stack, test,
};

/// Kilolock's developer commands.
#[derive(Debug, Parser)]
#[command(
    name = "xtask",
    bin_name = "cargo xtask",
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Test(test::TestArgs),
    Lint(lint::LintArgs),
    Gen(generate::GenArgs),
    Sqlx(sqlx::SqlxArgs),
    Stack(stack::StackArgs),
    Databases(databases::DatabasesArgs),
    Lane(lane::LaneArgs),
    Bench(bench::BenchArgs),
    MixedMode(mixed_mode::MixedModeArgs),
    RestoreDrill(restore_drill::RestoreDrillArgs),
    Chaos(chaos::ChaosArgs),
    #[command(hide = true)]
    S3Server(s3_server::S3ServerArgs),
}

impl Cli {
    /// Runs the command; answers the exit code.
    pub(crate) async fn run(self) -> Result<u8> {
        match self.command {
            Command::Demo(args) => demo::run(&args).await,
            Command::Test(args) => test::run(&args).await,
            Command::Lint(args) => lint::run(&args).await,
            Command::Gen(args) => generate::run(&args).await,
            Command::Sqlx(args) => sqlx::run(&args).await,
            Command::Stack(args) => stack::run(args).await,
            Command::Databases(args) => databases::run(args).await,
            Command::Lane(args) => lane::run(&args).await,
            Command::Bench(args) => bench::run(&args).await,
            Command::MixedMode(args) => mixed_mode::run(&args).await,
            Command::RestoreDrill(args) => restore_drill::run(&args).await,
            Command::Chaos(args) => chaos::run(&args).await,
            Command::S3Server(args) => s3_server::run(args).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn parse(line: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("xtask").chain(line.iter().copied()))
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_stack_needs_a_command_after_two_dashes() {
        assert!(parse(&["stack"]).is_err());
        assert!(parse(&["stack", "true"]).is_err());
        assert!(parse(&["stack", "--replicas", "0", "--", "true"]).is_err());
        let cli = parse(&[
            "stack",
            "--replicas",
            "2",
            "--s3",
            "--",
            "sh",
            "-c",
            "exit 3",
        ])
        .unwrap();
        assert!(matches!(cli.command, Command::Stack(_)));
    }

    #[test]
    fn tests_take_filters() {
        let cli = parse(&["test", "lock", "unlock"]).unwrap();
        assert!(matches!(cli.command, Command::Test(_)));
    }
}
