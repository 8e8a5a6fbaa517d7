//! Working on a part of a state: working out a scope and fetching its slice must cost what the part costs.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::Bench;
use super::client::Client;
use super::documents::Posted;
use super::report::{Report, Target, median, ms};

pub(super) const NAMES: &[&str] = &["slice_at_100000_to_1000"];

const SIZES: [usize; 2] = [1_000, 100_000];
/// Resources of a slice: each chain of so many depends on itself alone.
const CHAIN: usize = 12;
const WARM_UP: usize = 5;
const ROUNDS: usize = 60;

pub(super) async fn measure(bench: &Bench, report: &Report) -> Result<()> {
    let stack = bench.stack().await?;
    let client = Client::new(&stack);
    for size in SIZES {
        let document = Posted::from(serde_json::to_vec(&state(size))?);
        client.write(&name(size), &document, None).await?;
    }
    let mut samples = [Vec::new(), Vec::new()];
    // In turns, so that the mood of the machine meets both alike.
    for round in 0..WARM_UP + ROUNDS {
        for (size, samples) in SIZES.iter().zip(&mut samples) {
            let began = Instant::now();
            fetch(&client, *size, round).await?;
            if round >= WARM_UP {
                samples.push(ms(began.elapsed()));
            }
        }
    }
    let (small, large) = (median(&samples[0]), median(&samples[1]));
    report.ratio(
        NAMES[0],
        large / small,
        Target::AtMost(2.0),
        &format!(
            "{large:.2} ms at {} instances ÷ {small:.2} ms at {}, a scope of {CHAIN} worked out and fetched, warm, medians of {ROUNDS}",
            SIZES[1], SIZES[0]
        ),
    );
    Ok(())
}

fn name(size: usize) -> String {
    format!("slice-{size}")
}

/// Works out the scope of the end of a chain and fetches its slice.
async fn fetch(client: &Client, size: usize, round: usize) -> Result<()> {
    // Another chain each time: what is warm is the graph, not the rows.
    let chain = round * 7 % (size / CHAIN);
    let members: Vec<usize> = (chain * CHAIN..(chain + 1) * CHAIN).collect();
    let nodes: Vec<Value> = members
        .iter()
        .map(|number| {
            json!({ "address": address(*number), "dependencies": before(*number), "repetition": "single" })
        })
        .collect();
    let end = address(chain * CHAIN + CHAIN - 1);
    let scope = json!({ "write": [end], "configuration": { "nodes": nodes, "calls": [] } });
    let expanded = client
        .state_engine("scope/expand", &name(size), scope)
        .await?;
    let addresses = &expanded["fetch_addresses"];
    let count = addresses.as_array().context("no addresses")?.len();
    ensure!(count == CHAIN, "the scope has {count} addresses");
    let slice = json!({ "addresses": addresses });
    let slice = client
        .state_engine("state/slice", &name(size), slice)
        .await?;
    let found = slice["slice"]["metadata"]["diagnostics"]["materialized_count"].as_u64();
    ensure!(found == Some(CHAIN as u64), "the slice is {slice}");
    Ok(())
}

fn address(number: usize) -> String {
    format!("terraform_data.r{number:06}")
}

/// What a resource depends on: all before it in its chain, as Terraform records it.
fn before(number: usize) -> Vec<String> {
    (number - number % CHAIN..number).map(address).collect()
}

/// A state of so many resources, each of the size that most have.
fn state(size: usize) -> Value {
    let text = "x".repeat(500);
    let resource = |number: usize| {
        json!({
            "mode": "managed",
            "type": "terraform_data",
            "name": format!("r{number:06}"),
            "provider": "provider[\"terraform.io/builtin/terraform\"]",
            "instances": [{
                "schema_version": 0,
                "attributes": { "id": number.to_string(), "input": text, "output": text, "triggers_replace": null },
                "sensitive_attributes": [],
                "dependencies": before(number),
            }],
        })
    };
    json!({
        "version": 4,
        "terraform_version": "1.11.4",
        "serial": 1,
        "lineage": "00000000-0000-4000-8000-000000000000",
        "outputs": {},
        "resources": (0..size).map(resource).collect::<Vec<_>>(),
        "check_results": null,
    })
}
