//! Splitting a document and hashing every instance of it, next to hashing its bytes and nothing else.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Result;

use super::Bench;
use super::report::{Report, Target, median, ms};

pub(super) const NAMES: &[&str] = &["split_and_digest_100mb"];

const ROUNDS: usize = 9;

pub(super) async fn measure(bench: &Bench, report: &Report) -> Result<()> {
    let document = bench.documents.of_megabytes(100).await?;
    let (mut split, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        black_box(tfstate::parse(black_box(&document))?);
        split.push(ms(began.elapsed()));
        let began = Instant::now();
        black_box(tfstate::Digest::of(black_box(&document)));
        plain.push(ms(began.elapsed()));
    }
    let (split, plain) = (median(&split), median(&plain));
    report.ratio(
        NAMES[0],
        split / plain,
        Target::AtMost(2.5),
        &format!(
            "{split:.0} ms ÷ {plain:.0} ms, medians of {ROUNDS}, {} bytes",
            document.len()
        ),
    );
    Ok(())
}
