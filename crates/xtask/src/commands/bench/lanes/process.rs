//! Running a program to its end, and how much memory it and those it started had at most.

use std::collections::HashMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

/// How often memory is looked at. What lives shorter than that is small.
const LOOK: Duration = Duration::from_millis(20);

pub(super) struct Ran {
    pub(super) took: Duration,
    /// All processes together, resident.
    pub(super) peak_bytes: u64,
    pub(super) stdout: String,
}

/// Runs a command; any ending but 0 is an error with what it said.
pub(super) async fn run(mut command: Command) -> Result<Ran> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let began = Instant::now();
    let child = command.spawn().context("a program does not start")?;
    let pid = child.id().unwrap_or_default();
    let output = child.wait_with_output();
    tokio::pin!(output);
    let mut peak_bytes = 0;
    let output = loop {
        tokio::select! {
            output = &mut output => break output?,
            () = tokio::time::sleep(LOOK) => peak_bytes = peak_bytes.max(resident(pid)),
        }
    };
    let took = began.elapsed();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{:?} ended with {}:\n{stdout}\n{}",
        command.as_std().get_program(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(Ran {
        took,
        peak_bytes,
        stdout,
    })
}

/// The resident bytes of a process and of all that descend from it.
fn resident(root: u32) -> u64 {
    let mut parents = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if let Some(parent) = parent_of(pid) {
            parents.insert(pid, parent);
        }
    }
    let descends = |mut pid: u32| loop {
        match parents.get(&pid) {
            _ if pid == root => return true,
            Some(parent) => pid = *parent,
            None => return false,
        }
    };
    parents
        .keys()
        .copied()
        .filter(|pid| descends(*pid))
        .map(resident_alone)
        .sum()
}

fn parent_of(pid: u32) -> Option<u32> {
    status_field(pid, "PPid:")?.parse().ok()
}

fn resident_alone(pid: u32) -> u64 {
    let kilobytes = status_field(pid, "VmRSS:").and_then(|text| text.parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

fn status_field(pid: u32, name: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next().map(str::to_owned)
}
