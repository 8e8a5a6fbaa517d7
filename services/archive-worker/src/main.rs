//! The program `archive-worker`. Its configuration comes from the environment and a file, see `kld::config::WorkerConfig`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use kld::config::{Source, WorkerConfig};
use tokio_util::sync::CancellationToken;

/// Works on exports and imports until SIGTERM or an interrupt.
#[derive(Debug, Parser)]
#[command(name = "archive-worker", version)]
struct Arguments {
    /// A file with configuration; the environment wins over it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

fn main() -> ExitCode {
    // Before any connection: one TLS provider for the process. An error says that there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The log may not have been set up yet.
            #[expect(
                clippy::print_stderr,
                reason = "the last word of a program that does not start"
            )]
            {
                eprintln!("archive-worker: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let source = Source::of_process(arguments.config.as_deref())?;
    let config = WorkerConfig::load(&source)?;
    telemetry::log::init(config.log_format, &config.log)?;
    std::panic::set_hook(Box::new(|panic| {
        // Where, and not what: the message may hold a document.
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        tracing::error!(reason = %place, "panicked");
    }));
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let shutdown = on_signal()?;
            archive_worker::serve::serve(config, shutdown).await
        })
}

/// A token that SIGTERM and SIGINT cancel.
fn on_signal() -> anyhow::Result<CancellationToken> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let shutdown = CancellationToken::new();
    let cancelled = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        cancelled.cancel();
    });
    Ok(shutdown)
}
