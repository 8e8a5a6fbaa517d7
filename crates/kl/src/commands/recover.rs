//! `kl recover`: uploads that came too late or went beyond their scope, beside what the state has.

use std::path::Path;

use protocol::runs::{AdoptKept, KeptAddress, KeptChange, KeptComparison, Run};
use protocol::states::KeptResult;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Context, status};
use crate::cli::RecoverArgs;
use crate::client::{ApiError, Client};
use crate::config::StateAddress;
use crate::failure::{Failure, Result};
use crate::output::time::when;

/// What Terraform leaves in the directory when its last upload was refused or did not get through.
const ERRORED: &str = "errored.tfstate";

#[derive(Serialize)]
struct View {
    kept: Vec<Kept>,
    errored: Option<Errored>,
    settled: Option<Settled>,
}

#[derive(Serialize)]
struct Kept {
    #[serde(flatten)]
    result: KeptResult,
    addresses: Vec<KeptAddress>,
}

/// An errored.tfstate, and the kept upload that has the same bytes.
#[derive(Serialize)]
struct Errored {
    serial: u64,
    kept_as: Option<uuid::Uuid>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Settled {
    Adopted(Box<Run>),
    Discarded(uuid::Uuid),
}

pub(super) async fn run(args: RecoverArgs, context: &Context) -> Result<()> {
    let client = context.client()?;
    let state = context.state(&client).await?;
    let settled = match (args.adopt, args.discard) {
        (Some(id), _) => Some(adopt(&args, id, &client, &state, context).await?),
        (_, Some(id)) => Some(discard(&args, id, &client, &state, context).await?),
        _ => None,
    };
    let kept = kept(&client, &state).await?;
    let errored = errored(&context.surroundings.directory, &kept, &client, &state).await?;
    let view = View {
        kept,
        errored,
        settled,
    };
    context.printer.result(&view, || text(&view, context))
}

async fn kept(client: &Client, state: &StateAddress) -> Result<Vec<Kept>> {
    let found = match client.get_state_status(state).await {
        Ok(found) => found.kept,
        Err(error) if error.is_absent_state() => Vec::new(),
        Err(error) => return Err(status::unreadable(error.into(), state)),
    };
    let mut kept = Vec::new();
    for result in found.into_iter().filter(|result| !result.settled) {
        let addresses = match client.compare_kept(state, result.id).await {
            Ok(KeptComparison { addresses, .. }) => addresses,
            // A document that does not come apart into addresses is there all the same.
            Err(ApiError::Refused { .. }) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        kept.push(Kept { result, addresses });
    }
    Ok(kept)
}

/// Looks for what Terraform left here, and whether the server has it, too.
async fn errored(
    directory: &Path,
    kept: &[Kept],
    client: &Client,
    state: &StateAddress,
) -> Result<Option<Errored>> {
    #[derive(Deserialize)]
    struct Document {
        serial: u64,
    }

    let Ok(bytes) = std::fs::read(directory.join(ERRORED)) else {
        return Ok(None);
    };
    let Ok(document) = serde_json::from_slice::<Document>(&bytes) else {
        return Err(Failure::failed(format!("{ERRORED} is not a state")));
    };
    let mut kept_as = None;
    for Kept { result, .. } in kept {
        let theirs = client.get_kept_document(state, result.id).await?;
        if Sha256::digest(&theirs) == Sha256::digest(&bytes) {
            kept_as = Some(result.id);
        }
    }
    Ok(Some(Errored {
        serial: document.serial,
        kept_as,
    }))
}

async fn adopt(
    args: &RecoverArgs,
    id: uuid::Uuid,
    client: &Client,
    state: &StateAddress,
    context: &Context,
) -> Result<Settled> {
    let comparison = client.compare_kept(state, id).await?;
    let open: Vec<&str> = comparison
        .addresses
        .iter()
        .filter(|one| one.state != KeptChange::Unchanged)
        .map(|one| one.address.as_str())
        .filter(|address| !args.prefer_kept.iter().any(|chosen| chosen == address))
        .filter(|address| !args.prefer_state.iter().any(|chosen| chosen == address))
        .collect();
    if !open.is_empty() {
        let failure = Failure::failed("the state changed at some of the same addresses");
        let failure = open.iter().fold(failure, |failure, address| {
            failure.hint(format!("{address} changed on both sides"))
        });
        return Err(
            failure.hint("add `--prefer-kept ADDRESS` or `--prefer-state ADDRESS` for each")
        );
    }
    let question = format!(
        "Take over {} addresses of kept upload {id} into state `{}`?",
        comparison.addresses.len() - args.prefer_state.len().min(comparison.addresses.len()),
        state.state
    );
    agree(args, &question, context)?;
    let request = AdoptKept {
        key: uuid::Uuid::new_v4().to_string(),
        prefer_kept: args.prefer_kept.clone(),
        prefer_state: args.prefer_state.clone(),
    };
    let run = client
        .adopt_kept(state, id, &request)
        .await
        .map_err(|error| Failure::from(error).context(format!("could not adopt {id}")))?;
    Ok(Settled::Adopted(Box::new(run)))
}

async fn discard(
    args: &RecoverArgs,
    id: uuid::Uuid,
    client: &Client,
    state: &StateAddress,
    context: &Context,
) -> Result<Settled> {
    let question = format!("Let go of kept upload {id}? What it describes may exist");
    agree(args, &question, context)?;
    client
        .discard_kept(state, id)
        .await
        .map_err(|error| Failure::from(error).context(format!("could not discard {id}")))?;
    Ok(Settled::Discarded(id))
}

fn agree(args: &RecoverArgs, question: &str, context: &Context) -> Result<()> {
    match args.yes || context.printer.confirm(question)? {
        true => Ok(()),
        false => Err(Failure::failed("cancelled; nothing was changed")),
    }
}

fn text(view: &View, context: &Context) -> String {
    let mut text = String::new();
    match &view.settled {
        Some(Settled::Adopted(run)) => {
            text.push_str(&format!("adopted, as run {}\n", run.id));
            for version in &run.versions {
                text.push_str(&format!(
                    "  wrote version {} (serial {}): {}\n",
                    version.seq,
                    version.serial,
                    version.changed.join(", ")
                ));
            }
        }
        Some(Settled::Discarded(id)) => text.push_str(&format!("let go of {id}\n")),
        None => {}
    }
    if view.kept.is_empty() {
        text.push_str("nothing is kept that nobody has dealt with\n");
    }
    for Kept { result, addresses } in &view.kept {
        text.push_str(&format!(
            "{}: of {}, from version {}, {}\n",
            result.id,
            result.kept_by,
            result.base_seq,
            when(result.kept_at, context.now)
        ));
        for address in addresses {
            text.push_str(&format!("  {}\n", beside(address)));
        }
        text.push_str(&format!(
            "  take it over: kl recover --adopt {}\n",
            result.id
        ));
    }
    if let Some(errored) = &view.errored {
        text.push_str(&match errored.kept_as {
            Some(id) => format!("{ERRORED} here is kept upload {id}; remove it once that is settled\n"),
            None => format!(
                "{ERRORED} here (serial {}) never reached the server; after a run on a scope it holds only \
                 that scope, so do not `terraform state push` it\n",
                errored.serial
            ),
        });
    }
    text
}

/// The three sides of an address: what its writer did to it, and what the state did since.
fn beside(address: &KeptAddress) -> String {
    let word = |change: KeptChange| match change {
        KeptChange::Unchanged => "did not change it",
        KeptChange::Added => "added it",
        KeptChange::Changed => "changed it",
        KeptChange::Removed => "removed it",
    };
    format!(
        "{}: the upload {}, the state {} since",
        address.address,
        word(address.kept),
        word(address.state)
    )
}
