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
use crate::near::near;
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
    /// Whether somebody has adopted or discarded that upload.
    settled: bool,
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
        (Some(id), _) => {
            still_open(id, &client, &state).await?;
            Some(adopt(&args, id, &client, &state, context).await?)
        }
        (_, Some(id)) => {
            still_open(id, &client, &state).await?;
            Some(discard(&args, id, &client, &state, context).await?)
        }
        _ => None,
    };
    let all = results(&client, &state).await?;
    let errored = errored(&context.surroundings.directory, &all, &client, &state).await?;
    let kept = compared(all, &client, &state).await?;
    let view = View {
        kept,
        errored,
        settled,
    };
    context.printer.result(&view, || text(&view, context))
}

/// All that is kept, dealt with or not.
async fn results(client: &Client, state: &StateAddress) -> Result<Vec<KeptResult>> {
    match client.get_state_status(state).await {
        Ok(found) => Ok(found.kept),
        Err(error) if error.is_absent_state() => Ok(Vec::new()),
        Err(error) => Err(status::unreadable(error.into(), state)),
    }
}

/// Fails for an id that is not kept, or that somebody has dealt with: before anything is asked about it.
async fn still_open(id: uuid::Uuid, client: &Client, state: &StateAddress) -> Result<()> {
    let all = results(client, state).await?;
    match all.iter().find(|result| result.id == id) {
        Some(result) if result.settled => Err(Failure::failed(format!(
            "kept upload {id} was adopted or discarded before"
        ))
        .hint("run `kl recover` for those that nobody has dealt with")),
        Some(_) => Ok(()),
        None => Err(Failure::failed(format!(
            "nothing is kept under {id} for state `{}`",
            state.state
        ))
        .hint("run `kl recover` for what is")),
    }
}

/// What nobody has dealt with, each beside the state.
async fn compared(
    found: Vec<KeptResult>,
    client: &Client,
    state: &StateAddress,
) -> Result<Vec<Kept>> {
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
    kept: &[KeptResult],
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
    let size = bytes.len() as i64;
    let mut same = None;
    for result in kept.iter().filter(|result| result.size_bytes == size) {
        let theirs = client.get_kept_document(state, result.id).await?;
        if Sha256::digest(&theirs) == Sha256::digest(&bytes) {
            same = Some(result);
            break;
        }
    }
    Ok(Some(Errored {
        serial: document.serial,
        kept_as: same.map(|result| result.id),
        settled: same.is_some_and(|result| result.settled),
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
    refuse_unknown(args, &comparison)?;
    let is_chosen = |one: &&KeptAddress| {
        let mut chosen = args.prefer_kept.iter().chain(&args.prefer_state);
        chosen.any(|address| *address == one.address)
    };
    let open: Vec<&KeptAddress> = comparison
        .addresses
        .iter()
        .filter(|one| one.state != KeptChange::Unchanged || one.outside)
        .filter(|one| !is_chosen(one))
        .collect();
    if !open.is_empty() {
        let failure = Failure::failed("what is to stay has to be said for some of the addresses");
        let failure = open.iter().fold(failure, |failure, one| match one.outside {
            true => failure.hint(format!(
                "{} was outside of what the run was shown, and its upload has another object there",
                one.address
            )),
            false => failure.hint(format!("{} changed on both sides", one.address)),
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

/// Refuses to decide over what the upload does not have: it would be silently left aside.
fn refuse_unknown(args: &RecoverArgs, comparison: &KeptComparison) -> Result<()> {
    let known = || comparison.addresses.iter().map(|one| one.address.as_str());
    let chosen = args.prefer_kept.iter().chain(&args.prefer_state);
    if let Some(both) = args
        .prefer_kept
        .iter()
        .find(|address| args.prefer_state.contains(address))
    {
        return Err(Failure::usage(format!(
            "{both} is to be taken from the kept upload and from the state: say one"
        )));
    }
    let Some(unknown) = chosen
        .into_iter()
        .find(|one| !known().any(|address| address == *one))
    else {
        return Ok(());
    };
    let failure = Failure::usage(format!("the kept upload changed nothing at {unknown}"));
    Err(match near(unknown, known()).as_slice() {
        [] => failure.hint("run `kl recover` for the addresses it changed"),
        near => failure.hint(format!("near it are {}", near.join(", "))),
    })
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
            Some(id) if errored.settled => {
                format!("{ERRORED} here is kept upload {id}, which is dealt with: remove the file\n")
            }
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
    let outside = match address.outside {
        true => ", and was outside of what the run was shown",
        false => "",
    };
    format!(
        "{}: the upload {}, the state {} since{outside}",
        address.address,
        word(address.kept),
        word(address.state)
    )
}
