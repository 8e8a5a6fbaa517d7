//! Developer commands, run as `cargo xtask <command>`.
//!
//! One command for each daily act, the same on a desk and in CI. Nothing here ships: xtask may start processes,
//! install packages and print; the product may not depend on it. A new command is one module under `commands` with
//! its clap arguments and one `run` function, and one line in [`cli`].

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program talks to its user"
)]

mod actor;
mod checks;
mod cli;
mod commands;
mod host;
mod kl;
mod stack;
mod terraform;
mod witness;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();

    // reqwest panics while it builds a client when no provider was chosen; `Err` only means that one already was.
    let _ = rustls::crypto::ring::default_provider().install_default();

    // The runtime must live on the main thread: children ask the kernel for a signal when the *thread* that started
    // them ends (see `host::process`), and a worker thread may end at any time.
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };

    runtime.block_on(async {
        // Dropping the command's future stops everything it started: every process sits in a guard.
        tokio::select! {
            outcome = cli.run() => match outcome {
                Ok(code) => ExitCode::from(code),
                Err(error) => {
                    eprintln!("error: {error:#}");
                    ExitCode::FAILURE
                }
            },
            signal = host::signals::caught() => {
                eprintln!("xtask: stopped by {signal}, cleaning up");
                ExitCode::from(signal.exit_code())
            }
        }
    })
}
