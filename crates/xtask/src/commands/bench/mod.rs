//! `cargo xtask bench`: what Kilolock promises about size and speed, as figures.
//!
//! Every figure is a ratio of two things measured within one run, because machines and their moods differ by more than
//! any change to the code; both numbers stand below it. The stack is built optimised and Postgres flushes its commits.
//! Figures that need the same preparation are a group: one module, one list of names, one function. Each group runs on
//! a stack of its own, so that no figure depends on what ran before it.

mod applies;
mod archive;
mod client;
mod contention;
mod corpus;
mod delta;
mod disk;
mod documents;
mod graphs;
mod instance;
mod lanes;
mod leases;
mod locks;
mod memory;
mod report;
mod slice;
mod small;
mod snapshot;
mod split;
mod text_value;

use std::num::NonZeroU8;

use anyhow::{Context as _, Result};
use clap::Args;
use tokio::process::Command;

use crate::host::foreground::{self, Foreground, exit_code};
use crate::host::workspace::{Profile, Workspace};
use crate::stack::postgres::Durability;
use crate::stack::{ObjectStorage, Stack, StackOptions};

use documents::Documents;
use report::Report;

/// Measure what Kilolock promises about size and speed.
///
/// Prints a line for each figure, `name: value (target …) ok|short`, and below it what the value was made from. Ends with
/// 0 unless a measurement could not be made. The states come from the generator in the shared inputs (KL_SHARED_DIR).
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// Only the groups with this text in their own name or in that of a figure.
    filter: Option<String>,
    /// List the figures by group and measure nothing.
    #[arg(long)]
    list: bool,
}

/// What every group measures with.
struct Bench {
    workspace: Workspace,
    documents: Documents,
}

impl Bench {
    /// A stack for one group.
    async fn stack(&self) -> Result<Stack> {
        self.start(NonZeroU8::MIN, None).await
    }

    /// A stack of so many replicas.
    async fn stack_of(&self, replicas: u8) -> Result<Stack> {
        let replicas = NonZeroU8::new(replicas).unwrap_or(NonZeroU8::MIN);
        self.start(replicas, None).await
    }

    /// A stack whose clients reach it by this port.
    async fn stack_behind(&self, port: u16) -> Result<Stack> {
        self.start(NonZeroU8::MIN, Some(port)).await
    }

    async fn start(&self, replicas: NonZeroU8, front: Option<u16>) -> Result<Stack> {
        let options = StackOptions {
            front,
            replicas,
            profile: Profile::Release,
            durability: Durability::Durable,
            object_storage: ObjectStorage::Without,
        };
        Stack::start(&self.workspace, options).await
    }
}

/// Figures that are measured together.
#[derive(Clone, Copy, Debug)]
enum Group {
    Corpus,
    Split,
    Snapshot,
    Disk,
    Instance,
    Delta,
    Slice,
    Lanes,
    Applies,
    Memory,
    Locks,
    Contention,
    Leases,
    Graphs,
    Small,
    Archive,
}

impl Group {
    const ALL: [Self; 16] = [
        Self::Corpus,
        Self::Split,
        Self::Small,
        Self::Snapshot,
        Self::Memory,
        Self::Locks,
        Self::Contention,
        Self::Leases,
        Self::Graphs,
        Self::Instance,
        Self::Delta,
        Self::Slice,
        Self::Lanes,
        Self::Applies,
        Self::Disk,
        Self::Archive,
    ];

    /// The group's own name. Groups about one thing share a word, by which all of them are chosen.
    fn name(self) -> &'static str {
        match self {
            Self::Corpus => "corpus",
            Self::Split => "split",
            Self::Snapshot => "documents",
            Self::Disk => "disk",
            Self::Instance => "instance",
            Self::Delta => "delta",
            Self::Slice => "slice",
            Self::Lanes => "native",
            Self::Applies => "applies",
            Self::Memory => "memory",
            Self::Locks => "locks",
            Self::Contention => "locks-contention",
            Self::Leases => "locks-leases",
            Self::Graphs => "graphs",
            Self::Small => "small",
            Self::Archive => "archive",
        }
    }

    /// Whether it is chosen by this text.
    fn is_meant(self, wanted: &str) -> bool {
        self.name().contains(wanted) || self.names().iter().any(|name| name.contains(wanted))
    }

    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Corpus => corpus::NAMES,
            Self::Split => split::NAMES,
            Self::Snapshot => snapshot::NAMES,
            Self::Disk => disk::NAMES,
            Self::Instance => instance::NAMES,
            Self::Delta => delta::NAMES,
            Self::Slice => slice::NAMES,
            Self::Lanes => lanes::NAMES,
            Self::Applies => applies::NAMES,
            Self::Memory => memory::NAMES,
            Self::Locks => locks::NAMES,
            Self::Contention => contention::NAMES,
            Self::Leases => leases::NAMES,
            Self::Graphs => graphs::NAMES,
            Self::Small => small::NAMES,
            Self::Archive => archive::NAMES,
        }
    }

    async fn measure(self, bench: &Bench, report: &Report) -> Result<()> {
        match self {
            Self::Corpus => corpus::measure(bench, report).await,
            Self::Split => split::measure(bench, report).await,
            Self::Snapshot => snapshot::measure(bench, report).await,
            Self::Disk => disk::measure(bench, report).await,
            Self::Instance => instance::measure(bench, report).await,
            Self::Delta => delta::measure(bench, report).await,
            Self::Slice => slice::measure(bench, report).await,
            Self::Lanes => lanes::measure(bench, report).await,
            Self::Applies => applies::measure(bench, report).await,
            Self::Memory => memory::measure(bench, report).await,
            Self::Locks => locks::measure(bench, report).await,
            Self::Contention => contention::measure(bench, report).await,
            Self::Leases => leases::measure(bench, report).await,
            Self::Graphs => graphs::measure(bench, report).await,
            Self::Small => small::measure(bench, report).await,
            Self::Archive => archive::measure(bench, report).await,
        }
    }
}

pub(crate) async fn run(args: &BenchArgs) -> Result<u8> {
    let wanted = args.filter.as_deref().unwrap_or_default();
    let mut groups = Group::ALL.to_vec();
    groups.retain(|group| group.is_meant(wanted));
    anyhow::ensure!(
        !groups.is_empty(),
        "no group and no figure has `{wanted}` in its name"
    );
    if args.list {
        for group in groups {
            println!("{}: {}", group.name(), group.names().join(" "));
        }
        return Ok(0);
    }
    let workspace = Workspace::locate()?;
    if cfg!(debug_assertions) {
        return run_optimised(&workspace, args.filter.as_deref()).await;
    }
    let documents = Documents::new(&workspace)?;
    let bench = Bench {
        workspace,
        documents,
    };
    let report = Report;
    let mut failed = Vec::new();
    for group in groups {
        if let Err(error) = group.measure(&bench, &report).await {
            eprintln!(
                "error: {} could not be measured: {error:#}",
                group.names().join(", ")
            );
            failed.push(group);
        }
    }
    Ok(u8::from(!failed.is_empty()))
}

/// Hands over to this program built optimised: some figures are measured in process, and in all of them it is the client.
async fn run_optimised(workspace: &Workspace, filter: Option<&str>) -> Result<u8> {
    let mut build = workspace.cargo();
    build
        .args(["build", "--quiet", "--release", "--workspace"])
        .args(["--bin", "kld", "--bin", "kl", "--bin", "xtask"])
        .args(["--bin", "archive-worker"]);
    foreground::run_checked(build).await?;
    let mut bench = Command::new(workspace.bin_dir(Profile::Release).join("xtask"));
    bench.arg("bench").args(filter);
    let status = Foreground::spawn(bench)?.wait().await;
    Ok(exit_code(
        status.context("the optimised xtask did not run")?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(wanted: &str) -> Vec<&'static str> {
        let groups = Group::ALL.into_iter();
        let meant = groups.filter(|group| group.is_meant(wanted));
        meant.map(Group::name).collect()
    }

    #[test]
    fn a_group_is_chosen_by_its_name_or_by_that_of_a_figure() {
        assert_eq!(
            chosen("locks"),
            ["locks", "locks-contention", "locks-leases"]
        );
        assert_eq!(chosen("one_address_delta"), ["delta"]);
        assert_eq!(chosen("").len(), Group::ALL.len());
        assert!(chosen("nothing of the kind").is_empty());
    }
}
