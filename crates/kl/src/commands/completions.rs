//! `kl completions` and `kl version`: what the binary knows about itself.

use clap::CommandFactory as _;
use clap_complete::Shell;
use serde::Serialize;

use crate::cli::Cli;
use crate::failure::Result;
use crate::output::Printer;

pub(super) fn run(shell: Shell, printer: Printer) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "kl", &mut script);
    printer.bytes(&script)
}

#[derive(Serialize)]
struct Build {
    version: &'static str,
}

pub(super) fn version(printer: Printer) -> Result<()> {
    let build = Build {
        version: env!("CARGO_PKG_VERSION"),
    };
    printer.result(&build, || format!("kl {}\n", build.version))
}
