//! What a large write costs in memory.

use anyhow::{Context as _, Result};

use super::Bench;
use super::client::Client;
use super::documents::{Change, Posted, changed};
use super::report::{Report, Target};

pub(super) const NAMES: &[&str] = &["peak_memory_110mb_write"];

/// The peak is that of the whole process since it started, so the replica must be fresh: it serves a first write of all
/// rows, then one of 1 %, which needs the list of live rows too.
pub(super) async fn measure(bench: &Bench, report: &Report) -> Result<()> {
    let stack = bench.stack().await?;
    let client = Client::new(&stack);
    let document = bench.documents.of_megabytes(110).await?;
    let size = document.len();
    let idle = peak_bytes(stack.replica_pid())?;
    client
        .write("large", &Posted::from(document.clone()), None)
        .await?;
    let first = peak_bytes(stack.replica_pid())?;
    let next = changed(&document, Change::one_percent(0))?;
    client.write("large", &Posted::from(next), None).await?;
    let peak = peak_bytes(stack.replica_pid())?;
    report.ratio(
        NAMES[0],
        peak as f64 / size as f64,
        Target::AtMost(2.5),
        &format!("{peak} bytes ÷ {size} bytes; {first} after the first write, {idle} before it"),
    );
    Ok(())
}

/// The largest resident size that a process has had.
pub(super) fn peak_bytes(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kilobytes: u64 = kilobytes.context("no VmHWM in /proc")?.trim().parse()?;
    Ok(kilobytes * 1024)
}

/// Makes the process's peak begin anew at its resident size of now.
pub(super) fn forget_peak(pid: u32) -> Result<()> {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5")
        .with_context(|| format!("cannot reset the peak of process {pid}"))
}
