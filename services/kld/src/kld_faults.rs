//! The `kld` program with switches that break it, for test runs alone (docs/faults.md).

use std::io::Write as _;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    if let Err(wrong) = locking::check_settings() {
        let _ = writeln!(std::io::stderr(), "error: {wrong}");
        return ExitCode::FAILURE;
    }
    kld::program::main().await
}
