//! `kl`, the command line of Kilolock.
//!
//! Parse ([`cli`]) → resolve ([`config`]) → act ([`commands`], through [`client`]) → render
//! ([`output`]). This file only strings them together.

mod cli;
mod client;
mod commands;
mod config;
mod encoding;
mod failure;
mod near;
mod output;
mod plan;
mod run;
mod scope;
mod secret;
mod terraform;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::cli::{Cli, Command};
use crate::commands::Context;
use crate::config::Surroundings;
use crate::failure::{Failure, Kind, Result};
use crate::output::Printer;

fn main() -> ExitCode {
    // Before any client: one TLS provider for the process. An error says that there is one already.
    _ = rustls::crypto::ring::default_provider().install_default();

    let command = Cli::command();
    let given: Vec<_> = std::env::args_os().collect();
    let names_state_file = cli::argv::names_state_file(&given);
    let arguments = cli::argv::normalise(given, &command);
    if cli::argv::holds_token(&arguments) {
        return end(Printer::new(false, false), Err(token_on_command_line()));
    }
    if names_state_file {
        return end(
            Printer::new(false, false),
            Err(state_file_on_command_line()),
        );
    }
    let parsed = command
        .try_get_matches_from(arguments)
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to stdout with 0, a mistake to stderr with 2; a closed pipe is no matter.
            _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let printer = Printer::new(cli.global.json, cli.global.quiet);
    end(printer, run(cli, printer))
}

/// Says how it went, and makes the exit code of it.
fn end(printer: Printer, outcome: Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) if failure.is_silent() => failure.exit_code(),
        Err(failure) => {
            printer.failure(&failure);
            failure.exit_code()
        }
    }
}

fn token_on_command_line() -> Failure {
    Failure::usage(
        "a token is not taken on the command line: it shows in process lists and histories",
    )
    .hint("run `export KL_TOKEN=…`, or give `--token-file FILE`")
    .hint("if it is a real one, it has leaked now: run `kl token revoke --leaked` with it")
}

fn state_file_on_command_line() -> Failure {
    Failure::usage("-state and -backup name files, and a state in Kilolock is none")
        .hint("`--state NAME` names another state of the environment")
}

fn run(cli: Cli, printer: Printer) -> Result<()> {
    if cli.global.has_token() {
        return Err(token_on_command_line());
    }
    if let Some(directory) = &cli.global.chdir {
        std::env::set_current_dir(directory).map_err(|error| {
            Failure::new(Kind::Usage, error)
                .context(format!("could not change to {}", directory.display()))
        })?;
    }
    if let Some(outcome) = commands::run_offline(&cli.command, printer) {
        return outcome;
    }
    let surroundings = Surroundings::of_this_process()?;
    let argument = cli.command.state_argument();
    let mut asked = cli.global.asked(argument);
    // `init --force` replaces the file, so what it says, right or wrong, does not count.
    asked.ignore_file = matches!(&cli.command, Command::Init(args) if args.force);
    let context = Context {
        settings: config::resolve(asked, &surroundings)?,
        surroundings,
        printer,
        now: chrono::Utc::now(),
    };
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(commands::run(cli.command, &context))
}
