//! States of 1,000, 10,000 and 100,000 instances. The largest has 2,000 instances of a module with 50 instances each, in
//! ten blocks per kind of module, over 40 kinds.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use graph::claims::{Access, Claim, ClaimSet};
use graph::scope::{
    Calls, ConfigNode, Configuration, ModuleCall, Operation, Repetition, ScopeRequest, expand,
};
use graph::{InstanceRow, Object, Patch, RealizedGraph, RowRef, Seq};

/// Instances, kinds of modules, and instances of each kind.
const SIZES: [(usize, usize, usize); 3] = [(1_000, 20, 1), (10_000, 40, 5), (100_000, 40, 50)];
const KINDS: usize = 40;
const COPIES: usize = 50;
const BLOCKS: usize = 10;
const KEYS: usize = 5;
const STATE: [u8; 16] = [1; 16];

struct Row {
    address: String,
    config_address: String,
    dependencies: Vec<String>,
}

impl Row {
    fn borrowed(&self, born: u64) -> InstanceRow<'_> {
        let row = RowRef {
            address: &self.address,
            object: Object::Current,
        };
        let (config_address, dependencies) = (self.config_address.as_str(), &self.dependencies);
        InstanceRow {
            row,
            config_address,
            dependencies,
            born: Seq(born),
        }
    }
}

/// Each block depends on the blocks of its module before it, and on the last one of the kind before;
/// four kinds belong together.
fn rows(kinds: usize, copies: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for kind in 0..kinds {
        for block in 0..BLOCKS {
            let (config_address, dependencies) = block_of(kind, block);
            for copy in 0..copies {
                for key in 0..KEYS {
                    let address = format!(
                        "module.service_{kind}[\"eu-central-{copy}\"].aws_thing.part_{block}[{key}]"
                    );
                    let (config_address, dependencies) =
                        (config_address.clone(), dependencies.clone());
                    rows.push(Row {
                        address,
                        config_address,
                        dependencies,
                    });
                }
            }
        }
    }
    rows
}

fn block_of(kind: usize, block: usize) -> (String, Vec<String>) {
    let name = |kind, block| format!("module.service_{kind}.aws_thing.part_{block}");
    let mut dependencies: Vec<String> = (0..block).map(|earlier| name(kind, earlier)).collect();
    if !kind.is_multiple_of(4) {
        dependencies.push(name(kind - 1, BLOCKS - 1));
    }
    (name(kind, block), dependencies)
}

fn configuration() -> Configuration {
    let blocks = (0..KINDS).flat_map(|kind| (0..BLOCKS).map(move |block| block_of(kind, block)));
    let nodes = blocks.map(|(address, dependencies)| ConfigNode {
        address: address.parse().expect("an address"),
        dependencies: dependencies
            .iter()
            .map(|text| text.parse().expect("an address"))
            .collect(),
        repetition: Repetition::Count,
    });
    let calls = (0..KINDS).map(|kind| ModuleCall {
        module: format!("module.service_{kind}").parse().expect("a module"),
        repetition: Repetition::ForEach,
    });
    Configuration {
        nodes: nodes.collect(),
        calls: Calls::Repeated(calls.collect()),
        ..Configuration::default()
    }
}

/// As many blocks of their own as there are instances: the other extreme.
fn flat_rows(count: usize) -> Vec<Row> {
    let name = |number: usize| format!("aws_thing.number_{number}");
    let row = |number: usize| Row {
        address: name(number),
        config_address: name(number),
        dependencies: (1..=6)
            .filter_map(|back| number.checked_sub(back * count / 100))
            .map(name)
            .collect(),
    };
    (0..count).map(row).collect()
}

fn build(rows: &[Row]) -> RealizedGraph {
    RealizedGraph::build(Seq(1), rows.iter().map(|row| row.borrowed(1))).expect("a graph")
}

fn graphs(c: &mut Criterion) {
    let shapes = SIZES.into_iter().flat_map(|(size, kinds, copies)| {
        [("modules", rows(kinds, copies)), ("flat", flat_rows(size))]
    });
    for (shape, rows) in shapes {
        let size = rows.len() / 1_000;
        let mut group = c.benchmark_group(format!("{size}k instances, {shape}"));
        group.sample_size(20);
        group.bench_function("build", |b| b.iter(|| build(&rows)));
        let graph = build(&rows);
        let bytes = graph.encode(STATE);
        group.bench_function(format!("encode to {} kB", bytes.len() / 1_000), |b| {
            b.iter(|| graph.encode(STATE));
        });
        group.bench_function("decode", |b| {
            b.iter(|| RealizedGraph::decode(&bytes, STATE, 1 << 30).expect("a graph"));
        });
        group.bench_function("clone", |b| b.iter(|| graph.clone()));
        let mut current = Some(graph.clone());
        group.bench_function("patch three rows", |b| {
            b.iter(|| {
                let graph = current.take().expect("the graph of the round before");
                let (from, to) = (graph.seq(), Seq(graph.seq().0 + 1));
                let born: Vec<_> = rows[500..503]
                    .iter()
                    .map(|row| row.borrowed(to.0))
                    .collect();
                let closed: Vec<_> = born.iter().map(|row| row.row).collect();
                let patch = Patch {
                    from,
                    to,
                    closed: &closed,
                    born: &born,
                };
                current = Some(graph.patched(&patch).expect("it fits"));
            });
        });
        let every = rows.len() / 12;
        let twelve = rows.iter().step_by(every).take(12);
        let twelve = twelve.map(|row| row.address.parse().expect("a target"));
        let mut request = ScopeRequest {
            write: twelve.collect(),
            ..ScopeRequest::default()
        };
        group.bench_function("closure of 12, recorded edges", |b| {
            b.iter(|| expand(black_box(&graph), black_box(&request)));
        });
        request.operation = Operation::Destroy;
        group.bench_function("closure of 12 with all dependents", |b| {
            b.iter(|| expand(black_box(&graph), black_box(&request)));
        });
    }
}

fn scopes(c: &mut Criterion) {
    let mut group = c.benchmark_group("100k instances, modules, 400 declared blocks");
    group.sample_size(20);
    let graph = build(&rows(KINDS, COPIES));
    for (name, target) in [
        ("closure of a leaf", "module.service_0.aws_thing.part_0"),
        ("closure of 12 blocks", "module.service_1.aws_thing.part_1"),
        ("closure of everything", "module.service_39"),
    ] {
        let request = ScopeRequest {
            write: vec![target.parse().expect("a target")],
            configuration: Some(configuration()),
            ..ScopeRequest::default()
        };
        let fetched = expand(&graph, &request).fetch_addresses.len();
        group.bench_function(format!("{name}, {fetched} fetched"), |b| {
            b.iter(|| expand(black_box(&graph), black_box(&request)));
        });
    }
}

fn claims(c: &mut Criterion) {
    let mut group = c.benchmark_group("claims");
    let set = |count: usize, offset: usize| {
        let claims = (offset..offset + count).map(|number| Claim {
            path: format!("module.m{}.aws_thing.n{number}", number % 40)
                .parse()
                .expect("a path"),
            access: if number % 4 == 0 {
                Access::Write
            } else {
                Access::Read
            },
        });
        claims.collect::<Vec<Claim>>()
    };
    let small = set(12, 0);
    let large = set(4_000, 100);
    for (name, claims) in [
        ("12", &small),
        ("4,000", &large),
        ("20,000", &set(20_000, 0)),
    ] {
        group.bench_function(format!("compile {name}"), |b| {
            b.iter(|| ClaimSet::new(claims.iter().cloned()).nodes());
        });
    }
    let (small, large) = (ClaimSet::new(small).nodes(), ClaimSet::new(large).nodes());
    group.bench_function("conflict of 12 with 4,000", |b| {
        b.iter(|| black_box(&small).conflict(black_box(&large)));
    });
}

criterion_group!(benches, graphs, scopes, claims);
criterion_main!(benches);
