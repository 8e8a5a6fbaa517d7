//! Writing down what the databases hold.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use chaos::clients::sha256;
use chaos::history::Log;
use chaos::ledger::{Index, Ledger, ReadBack, State, bare};
use chaos::plan::Plan;
use chaos::wire::{Request, Who, Wire};
use serde::de::DeserializeOwned;

use super::stage::Stage;
use crate::stack::kld::DATABASE;

const US: &str = "(extract(epoch from {}) * 1000000)::bigint";

/// The whole ledger of a plan's states.
pub(super) async fn ledger(stage: &Stage, plan: &Plan) -> Result<Ledger> {
    let names: Vec<String> = plan
        .states
        .iter()
        .map(|state| format!("'{}'", state.name))
        .collect();
    let names = names.join(",");
    let of_states = format!("state_id in (select id from states where name in ({names}))");
    let of_reservations =
        format!("reservation_id in (select id from reservations where {of_states})");
    let us = |column: &str| US.replace("{}", column);
    let id = |column: &str| format!("replace({column}::text, '-', '')");
    let mut ledger = Ledger {
        times: Some(stage.times.get()),
        ..Ledger::default()
    };
    ledger.states = rows(stage, &format!(
        "select {} as id, name, s.workspace_id as workspace, head_seq, coalesce(token, 0) as token, coalesce(gen, 0) as gen \
         from states s left join lock_heads h on h.workspace_id = s.workspace_id and h.state_id = s.id \
         where name in ({names})", id("s.id"))).await?;
    ledger.reservations = rows(stage, &format!(
        "select {} as id, {} as state_id, {} as run_id, lane, idem_key, token, incarnation, status, {} as expires_us, \
         granted_gen, ended_gen, {} as created_us, {} as ended_us, began_at is not null as began \
         from reservations where {of_states} order by granted_gen",
        id("id"), id("state_id"), id("run_id"), us("expires_at"), us("created_at"), us("ended_at"))).await?;
    ledger.claims = rows(
        stage,
        &format!(
            "select {} as reservation_id, path, mode from claims where {of_reservations}",
            id("reservation_id")
        ),
    )
    .await?;
    ledger.versions = rows(stage, &format!(
        "select {} as state_id, seq, serial::bigint as serial, incarnation, {} as run_id, {} as reservation_id, token, \
         {} as created_us, encode(sha256, 'hex') as sha256, encode(rows_digest, 'hex') as rows_digest \
         from state_versions where {of_states}",
        id("state_id"), id("run_id"), id("reservation_id"), us("created_at"))).await?;
    // An instance's row holds its attributes as Terraform renders them.
    ledger.rows = rows(stage, &format!(
        "select {} as state_id, address, born_seq, dies_seq, \
         coalesce(substring(convert_from(body, 'UTF8') from '\"v\": \"([^\"]*)\"'), '') as value, \
         coalesce(substring(convert_from(body, 'UTF8') from '\"prev\": \"([^\"]*)\"'), '') as before \
         from instances where {of_states} and kind = 'current'", id("state_id"))).await?;
    ledger.kept = rows(
        stage,
        &format!(
            "select {} as reservation_id, encode(digest, 'hex') as digest, lock_id, {} as kept_us \
         from kept_results where {of_states}",
            id("reservation_id"),
            us("kept_at")
        ),
    )
    .await?;
    ledger.marks = rows(
        stage,
        &format!(
            "select {} as reservation_id, path from unsettled where {of_states}",
            id("reservation_id")
        ),
    )
    .await?;
    ledger.runs = rows(
        stage,
        &format!(
            "select {} as id, {} as state_id, idem_key, status from runs where {of_states}",
            id("id"),
            id("state_id")
        ),
    )
    .await?;
    Ok(ledger)
}

/// Runs a query; every row is one `T`.
async fn rows<T: DeserializeOwned>(stage: &Stage, query: &str) -> Result<Vec<T>> {
    let query = format!("select row_to_json(t) from ({query}) t");
    let databases = stage.databases.lock().await;
    let text = databases.postgres.sql(DATABASE, &query).await?;
    text.lines()
        .map(|line| {
            serde_json::from_str(line).with_context(|| line.chars().take(300).collect::<String>())
        })
        .collect()
}

/// What the index holds of each state that it knows.
pub(super) async fn index(stage: &Stage, states: &[State]) -> Result<Vec<Index>> {
    let port = stage.redis_port().await;
    let mut found = Vec::new();
    for state in states {
        let uuid = hyphenated(&state.id);
        let key = |table: &str| format!("kl:1:{}:{{{uuid}}}:{table}", state.workspace);
        let meta = ask_redis(port, &["HGET", &key("meta"), "wm"]).await?;
        let Some(wm) = meta.first().and_then(|wm| wm.parse().ok()) else {
            continue;
        };
        let fields = ask_redis(port, &["HKEYS", &key("res")]).await?;
        let held = fields.iter().filter_map(|field| field.strip_prefix("r:"));
        found.push(Index {
            state_id: state.id.clone(),
            wm,
            held: held.map(bare).collect(),
        });
    }
    Ok(found)
}

fn hyphenated(id: &str) -> String {
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
    let parts = parts.map(|part| id.get(part).unwrap_or_default().to_owned());
    parts.join("-")
}

/// One command; answers its texts.
pub(super) async fn ask_redis(port: u16, words: &[&str]) -> Result<Vec<String>> {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    let mut command = format!("*{}\r\n", words.len());
    for word in words {
        write!(command, "${}\r\n{word}\r\n", word.len())?;
    }
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
    let mut stream = BufReader::new(stream);
    stream.write_all(command.as_bytes()).await?;
    let mut head = String::new();
    stream.read_line(&mut head).await?;
    let head = head.trim_end();
    if let Some(text) = head.strip_prefix('+') {
        return Ok(vec![text.to_owned()]);
    }
    let count = match (head.strip_prefix('*'), head.strip_prefix('$')) {
        (Some(count), _) => count.parse().unwrap_or(0),
        (None, Some("-1")) => 0,
        (None, Some(_)) => {
            let mut text = String::new();
            stream.read_line(&mut text).await?;
            return Ok(vec![text.trim_end().to_owned()]);
        }
        (None, None) => anyhow::bail!("Redis says {head}"),
    };
    let mut texts = Vec::new();
    for _ in 0..count {
        let (mut length, mut text) = (String::new(), String::new());
        stream.read_line(&mut length).await?;
        stream.read_line(&mut text).await?;
        texts.push(text.trim_end().to_owned());
    }
    Ok(texts)
}

/// Each state's newest version, read in two ways.
pub(super) async fn documents(wire: &Wire, states: &[State]) -> Result<Vec<ReadBack>> {
    let mut found = Vec::new();
    for state in states {
        let path = format!("/v1/states/{}/{}", wire.place, state.name);
        let plain = get(wire, &path).await?;
        let history = get(
            wire,
            &format!("{path}/versions/{}/document", state.head_seq),
        )
        .await?;
        let rows_digest = match tfstate::parse(&plain) {
            Ok(tfstate::Document::State(document)) => hex(&document.rows_digest().to_bytes()),
            _ => String::new(),
        };
        found.push(ReadBack {
            state_id: state.id.clone(),
            seq: state.head_seq,
            plain_sha256: sha256(&plain),
            history_sha256: sha256(&history),
            rows_digest,
        });
    }
    Ok(found)
}

async fn get(wire: &Wire, path: &str) -> Result<Vec<u8>> {
    let said = wire
        .repeat(0, &Request::new("GET", path, Who::Writer))
        .await;
    let reply = said
        .reply
        .with_context(|| format!("{path}: {}", said.trouble))?;
    anyhow::ensure!(reply.is_ok(), "{path}: {} {}", reply.status, reply.code());
    Ok(reply.body)
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Writes the first version of every state, and asks nobody.
pub(super) async fn seed(wire: &Wire, plan: &Plan) -> Result<()> {
    for state in &plan.states {
        let cells = state.addresses.iter().map(|address| {
            let cell = chaos::document::Cell {
                value: "seed".to_owned(),
                before: String::new(),
            };
            (address.clone(), cell)
        });
        let document = chaos::document::Document {
            serial: 1,
            lineage: format!("lineage-of-{}", state.name),
            cells: cells.collect(),
        };
        let path = format!("/v1/states/{}/{}", wire.place, state.name);
        let request = Request::new("POST", &path, Who::Writer).bytes(document.bytes());
        let reply = wire.repeat(0, &request).await.reply.context("no answer")?;
        anyhow::ensure!(
            reply.is_ok(),
            "{path}: {}",
            String::from_utf8_lossy(&reply.body)
        );
    }
    Ok(())
}

/// Takes and gives up a lock of each state, so that everybody has heard of it once more.
pub(super) async fn touch(wire: &Wire, log: &Log, plan: &Plan) {
    for state in &plan.states {
        let path = format!("/v1/states/{}/{}", wire.place, state.name);
        let info = serde_json::json!({
            "ID": format!("touch-{}", log.now_us()), "Operation": "OperationTypePlan", "Who": "chaos", "Info": "",
            "Version": "1.11.4", "Created": "2026-11-30T12:00:00Z", "Path": "",
        });
        for method in ["LOCK", "UNLOCK"] {
            wire.repeat(0, &Request::new(method, &path, Who::Writer).json(&info))
                .await;
        }
    }
}
