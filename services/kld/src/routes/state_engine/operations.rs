//! Native operations on single addresses, each to be looked at first.

use axum::Json;
use axum::extract::State;
use engine::{Asked, ChangeKind, Operation, Preview, Value as NewValue, Verb, VersionRef, Wanted};
use graph::scope::Target;
use protocol::operations::{
    AddressChange, AddressChangeKind, MoveRequest, OperationAnswer, OperationBy, OperationPreview,
    PatchRequest, PathStep, RemoveRequest, RestoreRequest,
};
use protocol::{Code, RunId, VersionId};
use serde_json::Value;
use serde_json::value::RawValue;
use store::SliceRow;
use tfstate::{Address, Step};

use super::spelling::spell_both_ways;
use super::{full_name, request_digest};
use crate::access::{Named, StateCaller};
use crate::error::ApiError;
use crate::routes::states::render::{raw, unshowable, version};
use crate::routes::terraform::acting;
use crate::state::AppState;

/// A batch of a hundred thousand addresses fits.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// The longest command that is shown to others, in characters.
const COMMAND: usize = 200;

/// What was asked for, read.
struct Request {
    operation: Operation,
    address: String,
    to: Option<String>,
    command: String,
    by: OperationBy,
    digest: [u8; 32],
}

/// Shows what forgetting would do.
#[utoipa::path(post, path = "/v1/state-engine/resource-remove/preview", tag = "state engine",
    request_body = RemoveRequest, responses((status = 200, body = OperationAnswer)))]
pub(super) async fn preview_remove(
    State(app): State<AppState>,
    Named { caller, body }: Named<RemoveRequest, MAX_BYTES>,
) -> Result<Json<Value>, ApiError> {
    preview(&app, &caller, removal(body)?).await
}

/// Forgets what stands at some addresses, current and deposed objects alike. The infrastructure stays.
#[utoipa::path(post, path = "/v1/state-engine/resource-remove/apply", tag = "state engine",
    request_body = RemoveRequest, responses((status = 200, body = OperationAnswer)))]
pub(super) async fn apply_remove(
    State(app): State<AppState>,
    Named { caller, body }: Named<RemoveRequest, MAX_BYTES>,
) -> Result<Json<Value>, ApiError> {
    apply(&app, &caller, removal(body)?).await
}

/// Shows what a move would do.
#[utoipa::path(post, path = "/v1/state-engine/resource-move/preview", tag = "state engine",
    request_body = MoveRequest, responses((status = 200, body = OperationAnswer)))]
pub(super) async fn preview_move(
    State(app): State<AppState>,
    Named { caller, body }: Named<MoveRequest, MAX_BYTES>,
) -> Result<Json<Value>, ApiError> {
    preview(&app, &caller, relocation(body)?).await
}

/// Lets objects stand elsewhere, and lets the dependency lists that name them follow.
#[utoipa::path(post, path = "/v1/state-engine/resource-move/apply", tag = "state engine",
    request_body = MoveRequest,
    responses(
        (status = 200, body = OperationAnswer),
        (status = 409, description = "something stands there already", body = protocol::Problem),
    ))]
pub(super) async fn apply_move(
    State(app): State<AppState>,
    Named { caller, body }: Named<MoveRequest, MAX_BYTES>,
) -> Result<Json<Value>, ApiError> {
    apply(&app, &caller, relocation(body)?).await
}

/// Shows what restoring an address would do.
#[utoipa::path(post, path = "/v1/state-engine/resource-rollback/preview", tag = "state engine",
    request_body = RestoreRequest, responses((status = 200, body = OperationAnswer)))]
pub(super) async fn preview_restore(
    State(app): State<AppState>,
    Named { caller, body }: Named<RestoreRequest>,
) -> Result<Json<Value>, ApiError> {
    preview(&app, &caller, restoration(body)?).await
}

/// Lets an address hold what it held in another version.
#[utoipa::path(post, path = "/v1/state-engine/resource-rollback/apply", tag = "state engine",
    request_body = RestoreRequest, responses((status = 200, body = OperationAnswer)))]
pub(super) async fn apply_restore(
    State(app): State<AppState>,
    Named { caller, body }: Named<RestoreRequest>,
) -> Result<Json<Value>, ApiError> {
    apply(&app, &caller, restoration(body)?).await
}

/// Shows what a patch would do.
#[utoipa::path(post, path = "/v1/state-engine/resource-patch/preview", tag = "state engine",
    request_body = PatchRequest, responses((status = 200, body = OperationAnswer)))]
pub(super) async fn preview_patch(
    State(app): State<AppState>,
    Named { caller, body }: Named<PatchRequest>,
) -> Result<Json<Value>, ApiError> {
    preview(&app, &caller, patch(body)?).await
}

/// Changes attribute values of one object, if they are still what the caller says they are.
#[utoipa::path(post, path = "/v1/state-engine/resource-patch/apply", tag = "state engine",
    request_body = PatchRequest,
    responses(
        (status = 200, body = OperationAnswer),
        (status = 409, description = "a value is another by now", body = protocol::Problem),
    ))]
pub(super) async fn apply_patch(
    State(app): State<AppState>,
    Named { caller, body }: Named<PatchRequest>,
) -> Result<Json<Value>, ApiError> {
    apply(&app, &caller, patch(body)?).await
}

async fn preview(
    app: &AppState,
    caller: &StateCaller,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let shown = app
        .engine
        .preview_operation(&acting(caller)?, caller.name(), &request.operation)
        .await?;
    let answer = OperationAnswer {
        ok: true,
        preview: show(caller, request.address, request.to, shown)?,
        version: None,
        run: None,
    };
    written(&answer)
}

async fn apply(
    app: &AppState,
    caller: &StateCaller,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let by = request.by;
    let key = by.key.unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    let who = by.actor.unwrap_or_else(|| caller.display().to_owned());
    let command = by.command.unwrap_or(request.command);
    let asked = Asked {
        key: &key,
        command: &command,
        who: &who,
        request_digest: request.digest,
    };
    let done = app
        .engine
        .operate(&acting(caller)?, caller.name(), &request.operation, &asked)
        .await?;
    let answer = OperationAnswer {
        ok: true,
        preview: show(caller, request.address, request.to, done.preview)?,
        version: done.version.as_ref().map(version),
        run: done.run.map(RunId::from_uuid),
    };
    written(&answer)
}

/// The answer, with versions in both spellings.
fn written(answer: &OperationAnswer) -> Result<Json<Value>, ApiError> {
    let mut answer = serde_json::to_value(answer).map_err(|error| ApiError::internal(&error))?;
    for version in ["/version", "/preview/current", "/preview/target"] {
        if let Some(version) = answer.pointer_mut(version) {
            spell_both_ways(version);
        }
    }
    Ok(Json(answer))
}

fn removal(request: RemoveRequest) -> Result<Request, ApiError> {
    let digest = request_digest(&request)?;
    let mut texts = request.addresses;
    if !request.address.is_empty() {
        texts.insert(0, request.address);
    }
    let targets = texts.iter().map(|text| target("address", text));
    let targets: Vec<Target> = targets.collect::<Result<_, _>>()?;
    let address = first(&texts, "address")?;
    Ok(Request {
        operation: Operation::Remove(targets),
        command: command("kl state rm", &texts.join(" ")),
        address,
        to: None,
        by: request.by,
        digest,
    })
}

fn relocation(request: MoveRequest) -> Result<Request, ApiError> {
    let digest = request_digest(&request)?;
    let mut moves: Vec<(String, String)> = request
        .moves
        .into_iter()
        .map(|one| (one.from, one.to))
        .collect();
    if !request.address.is_empty() || !request.to.is_empty() {
        moves.insert(0, (request.address, request.to));
    }
    let read = |(from, to): &(String, String)| Ok((target("address", from)?, target("to", to)?));
    let targets: Vec<(Target, Target)> = moves.iter().map(read).collect::<Result<_, ApiError>>()?;
    let (address, to) = moves.first().cloned().ok_or_else(|| missing("address"))?;
    Ok(Request {
        operation: Operation::Move(targets),
        command: command("kl state mv", &format!("{address} {to}")),
        address,
        to: Some(to),
        by: request.by,
        digest,
    })
}

fn restoration(request: RestoreRequest) -> Result<Request, ApiError> {
    let digest = request_digest(&request)?;
    let address = instance(&request.address)?;
    let wanted = wanted(&request.to)?;
    let what = format!("{address} --to {}", request.to);
    Ok(Request {
        address: address.to_string(),
        operation: Operation::Restore(address, wanted),
        command: command("kl state repair", &what),
        to: None,
        by: request.by,
        digest,
    })
}

fn patch(request: PatchRequest) -> Result<Request, ApiError> {
    let digest = request_digest(&request)?;
    let address = instance(&request.address)?;
    if request.values.is_empty() {
        return Err(missing("values"));
    }
    let step = |step: PathStep| match step {
        PathStep::Member(name) => Step::Member(name),
        PathStep::Element(place) => Step::Element(place as usize),
    };
    let values = request.values.into_iter().map(|value| NewValue {
        path: value.path.into_iter().map(step).collect(),
        old: value.old.get().as_bytes().to_vec(),
        new: value.new.get().as_bytes().to_vec(),
    });
    Ok(Request {
        command: command("kl state patch", &address.to_string()),
        operation: Operation::Patch {
            deposed: request.deposed,
            values: values.collect(),
            address: address.clone(),
        },
        address: address.to_string(),
        to: None,
        by: request.by,
        digest,
    })
}

fn first(texts: &[String], field: &str) -> Result<String, ApiError> {
    texts.first().cloned().ok_or_else(|| missing(field))
}

fn missing(field: &str) -> ApiError {
    ApiError::with_detail(Code::InvalidRequest, format!("`{field}` is required"))
}

fn target(field: &str, text: &str) -> Result<Target, ApiError> {
    text.parse().map_err(|error: graph::scope::NotATarget| {
        ApiError::with_detail(Code::InvalidRequest, format!("`{field}`: {error}"))
    })
}

fn instance(text: &str) -> Result<Address, ApiError> {
    text.parse().map_err(|error: tfstate::AddressError| {
        ApiError::with_detail(Code::InvalidRequest, format!("`address`: {error}"))
    })
}

/// Reads how the protocol names versions, and the words that say what a number is.
fn wanted(text: &str) -> Result<Wanted, ApiError> {
    let back = |text: &str| text.parse().ok().filter(|back: &i64| *back >= 0);
    let wanted = if text.is_empty() || text == "current" {
        Some(Wanted::Version(VersionRef::Head))
    } else if let Some(text) = text.strip_prefix('@') {
        back(text).map(|back| Wanted::Version(VersionRef::Back(back)))
    } else if let Some(text) = text.strip_prefix("seq:") {
        back(text).map(|seq| Wanted::Version(VersionRef::Seq(seq)))
    } else if let Some(text) = text.strip_prefix("serial:") {
        text.parse().ok().map(Wanted::Serial)
    } else if let Ok(number) = text.parse() {
        Some(Wanted::Number(number))
    } else {
        let id = text.parse::<VersionId>().ok();
        id.map(|id| Wanted::Version(VersionRef::Id(id.as_uuid())))
    };
    wanted.ok_or_else(|| {
        ApiError::with_detail(
            Code::InvalidRequest,
            "`to`: a version is named by its id, `seq:3`, `serial:5`, `current`, or `@1` for the one before the newest",
        )
    })
}

fn command(words: &str, rest: &str) -> String {
    let line = format!("{words} {rest}").replace(char::is_control, " ");
    line.chars().take(COMMAND).collect()
}

fn show(
    caller: &StateCaller,
    address: String,
    to_address: Option<String>,
    preview: Preview,
) -> Result<OperationPreview, ApiError> {
    let verb = match preview.verb {
        Verb::Remove => "remove",
        Verb::Move => "move",
        Verb::Replace => "replace",
        Verb::Restore => "restore",
        Verb::Patch => "patch",
        Verb::NoOp => "no-op",
    };
    let (current_attrs, current_sensitive_paths) = attributes(&preview.subject)?;
    let (target_attrs, target_sensitive_paths) = attributes(&preview.outcome)?;
    let target_exists = match preview.verb {
        Verb::Remove | Verb::Move => false,
        Verb::Patch | Verb::Replace | Verb::Restore => true,
        Verb::NoOp => !preview.outcome.is_empty(),
    };
    let change = |change: engine::Change| AddressChange {
        address: change.address,
        change: match change.kind {
            ChangeKind::Added => AddressChangeKind::Added,
            ChangeKind::Changed => AddressChangeKind::Changed,
            ChangeKind::Removed => AddressChangeKind::Removed,
        },
    };
    Ok(OperationPreview {
        state: full_name(caller),
        action: verb.to_owned(),
        address,
        to_address,
        current: version(&preview.current),
        target: preview.target.as_ref().map(version),
        current_exists: !preview.subject.is_empty(),
        target_exists,
        current_attrs,
        target_attrs,
        current_sensitive_paths,
        target_sensitive_paths,
        changes: preview.changes.into_iter().map(change).collect(),
        dependencies: preview.dependencies,
        dependents: preview.dependents,
        warnings: preview.warnings,
    })
}

type Shown = (Option<Box<RawValue>>, Option<Box<RawValue>>);

/// Attributes and sensitive paths, where it is one object.
fn attributes(rows: &[SliceRow]) -> Result<Shown, ApiError> {
    let [row] = rows else {
        return Ok((None, None));
    };
    let members = tfstate::instance_members(&row.body).ok_or_else(|| unshowable("instance"))?;
    let attributes = members.attributes.or(members.attributes_flat);
    let show = |member: Option<&[u8]>| member.map(|member| raw(member, "attributes")).transpose();
    Ok((show(attributes)?, show(members.sensitive_attributes)?))
}
