//! The cost of splitting a document, beside plain SHA-256 of the same bytes.
//!
//! Splitting with the digest of every row should stay below 2.5 times the plain hash.

#[path = "../tests/support/mod.rs"]
mod support;

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use tfstate::{Digest, parse};

fn split(criterion: &mut Criterion) {
    let document = support::generated(&["--instances", "20000", "--seed", "1"]);
    let state = support::state(&document);
    let mut group = criterion.benchmark_group("split");
    group
        .sample_size(20)
        .throughput(Throughput::Bytes(document.len() as u64));
    group.bench_function("sha256", |bench| {
        bench.iter(|| Digest::of(black_box(&document)))
    });
    group.bench_function("parse", |bench| {
        bench.iter(|| parse(black_box(&document)).is_ok())
    });
    group.bench_function("reproduces", |bench| {
        bench.iter(|| state.reproduces(black_box(&document)))
    });
    group.bench_function("rows_digest", |bench| {
        bench.iter(|| black_box(&state).rows_digest())
    });
    group.bench_function("render", |bench| bench.iter(|| black_box(&state).render()));
    group.bench_function("canonicalise/all known", |bench| {
        bench.iter_batched_ref(
            || state.clone(),
            |state| state.canonicalise(|_, _| true),
            BatchSize::LargeInput,
        );
    });
    group.bench_function("canonicalise/none known", |bench| {
        bench.iter_batched_ref(
            || state.clone(),
            |state| state.canonicalise(|_, _| false),
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, split);
criterion_main!(benches);
