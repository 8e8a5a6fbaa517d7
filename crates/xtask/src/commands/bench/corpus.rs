//! Real state documents: the bytes come back, and what Terraform writes needs no copy beside the rows.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::Bench;
use super::client::Client;
use super::documents::Posted;
use super::report::Report;
use crate::stack::kld::DATABASE;

pub(super) const NAMES: &[&str] = &["corpus_round_trip", "genuine_without_copy"];

/// Files that name a Terraform from 1.0 on and are not as it wrote them. Those with another origin than a test fixture are
/// told apart by their INDEX.md.
const NOT_AS_WRITTEN: [(&str, &str); 8] = [
    ("004", "a fixture without final newline"),
    (
        "012",
        "a fixture of a development build, resources out of order",
    ),
    ("022", "a fixture of version 999, four-space indentation"),
    ("205", "CRLF"),
    ("206", "compact"),
    ("207", "tabs"),
    ("213", "duplicate and unknown keys"),
    ("215", "unsorted"),
];

/// The oldest Terraform whose documents count as genuine here; before it the format still moved.
const GENUINE_FROM_MAJOR: u64 = 1;

/// The lock under which the documents are written: they follow on one another without being related, which only the
/// holder of a lock may do.
const LOCK: &str = "bench-corpus";

struct Entry {
    file: String,
    document: Vec<u8>,
}

impl Entry {
    /// Its own state.
    fn state(&self) -> &str {
        self.file.trim_end_matches(".tfstate")
    }

    fn is_genuine(&self) -> bool {
        let Ok(tfstate::Document::State(state)) = tfstate::parse(&self.document) else {
            return false;
        };
        let major = state
            .terraform_version
            .split('.')
            .next()
            .unwrap_or_default();
        major
            .parse::<u64>()
            .is_ok_and(|major| major >= GENUINE_FROM_MAJOR)
            && !NOT_AS_WRITTEN
                .iter()
                .any(|(number, _)| self.file.starts_with(number))
    }
}

/// Every document is written to a state of its own, read at once, succeeded by another document, and read again as an
/// older version.
pub(super) async fn measure(bench: &Bench, report: &Report) -> Result<()> {
    let entries = accepted(&bench.documents.corpus_states())?;
    let stack = bench.stack().await?;
    let client = Client::new(&stack);
    let mut wrong = Vec::new();
    for entry in &entries {
        if let Err(error) = comes_back(&client, entry).await {
            wrong.push(format!("{} ({error:#})", entry.file));
        }
    }
    let successor = Posted::from(bench.documents.of_instances(3).await?);
    for entry in &entries {
        let later = comes_back_later(&client, entry, &successor).await;
        if let Err(error) = later {
            wrong.push(format!("{} ({error:#})", entry.file));
        }
    }
    let intact = entries.len().saturating_sub(wrong.len());
    report.count(NAMES[0], intact, entries.len(), &wrong);

    let in_rows = stack
        .databases
        .postgres
        .sql(
            DATABASE,
            "select state.name from states state join state_versions version
             on version.state_id = state.id and version.seq = 1 where version.form = 'rows'",
        )
        .await?;
    let in_rows: HashSet<&str> = in_rows.lines().collect();
    let genuine: Vec<&Entry> = entries.iter().filter(|entry| entry.is_genuine()).collect();
    let copied: Vec<String> = genuine
        .iter()
        .filter(|entry| !in_rows.contains(entry.state()))
        .map(|entry| entry.file.clone())
        .collect();
    report.count(
        NAMES[1],
        genuine.len() - copied.len(),
        genuine.len(),
        &copied,
    );
    Ok(())
}

async fn comes_back(client: &Client, entry: &Entry) -> Result<()> {
    ensure!(
        client.lock(entry.state(), LOCK).await?,
        "its state is locked"
    );
    let posted = Posted::from(entry.document.clone());
    client.write(entry.state(), &posted, Some(LOCK)).await?;
    let read = client.read(entry.state()).await?;
    ensure!(read == entry.document, "other bytes came back");
    Ok(())
}

async fn comes_back_later(client: &Client, entry: &Entry, successor: &Posted) -> Result<()> {
    client.write(entry.state(), successor, Some(LOCK)).await?;
    let older = format!("{}/versions/1/document", entry.state());
    ensure!(
        client.read(&older).await? == entry.document,
        "the older version is another"
    );
    client.unlock(entry.state(), LOCK).await
}

/// The documents that the index says a real Terraform accepts.
fn accepted(states: &Path) -> Result<Vec<Entry>> {
    let index = std::fs::read_to_string(states.join("INDEX.md"))
        .with_context(|| format!("no INDEX.md in {}", states.display()))?;
    let files = index
        .lines()
        .filter(|line| line.contains("| accepted ("))
        .filter_map(|line| {
            let file = line.strip_prefix("| ")?.split(' ').next()?;
            file.ends_with(".tfstate").then_some(file)
        });
    files
        .map(|file| {
            Ok(Entry {
                document: std::fs::read(states.join(file)).with_context(|| file.to_owned())?,
                file: file.to_owned(),
            })
        })
        .collect()
}
