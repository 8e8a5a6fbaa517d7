//! The `kld` program.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    kld::program::main().await
}
