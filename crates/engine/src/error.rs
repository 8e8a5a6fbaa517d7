//! Why a use case did not do what was asked: one variant per thing a caller can do about it.

use graph::claims::{Access, Path};
use protocol::LockInfo;
use protocol::scope::ScopeContract;

/// Who holds a state, as far as the members of its workspace may know.
#[derive(Debug, Clone)]
pub struct Holder {
    pub info: LockInfo,
    pub reservation: uuid::Uuid,
    pub run: Option<uuid::Uuid>,
    pub lane: String,
    pub principal: String,
    pub since: chrono::DateTime<chrono::Utc>,
    pub last_active: chrono::DateTime<chrono::Utc>,
    pub expires_at: Option<chrono::DateTime<chrono::Utc>>,
}

/// Who stands in the way of a claim, and of which.
#[derive(Debug, Clone)]
pub struct Conflict {
    pub holder: Holder,
    /// What was asked for and cannot be had.
    pub path: Path,
    /// How the holder has it.
    pub access: Access,
}

/// Who stands in the way of a scope, and the asker's place in the queue.
#[derive(Debug, Clone, Default)]
pub struct Busy {
    pub conflicts: Vec<Conflict>,
    /// To be sent with the next try.
    pub ticket: Option<String>,
    /// How many wait in front.
    pub ahead: Option<u32>,
    /// About how long it will take, if runs of the state take as long as they did.
    pub expected_seconds: Option<u32>,
}

impl From<Vec<Conflict>> for Busy {
    fn from(conflicts: Vec<Conflict>) -> Self {
        Self {
            conflicts,
            ..Self::default()
        }
    }
}

/// What the head was when a write was judged against it; never any of its content.
#[derive(Debug, Clone)]
pub struct HeadFacts {
    pub seq: i64,
    pub serial: Option<String>,
    pub lineage: Option<String>,
    pub sha256: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("nothing has been written to this state yet")]
    NoVersion,
    #[error("there is no such state")]
    NoState,
    #[error("there is no such version")]
    NoSuchVersion,
    #[error("this version holds no instance at that address")]
    NoSuchInstance,
    #[error("the state is called `{stored}`: names differ only by case")]
    NameCase { stored: String },
    #[error("the state is locked by {}", .0.info.who)]
    Locked(Box<Holder>),
    #[error("the lock ID is not the one that holds the state")]
    LockIdMismatch(Option<Box<Holder>>),
    #[error("force-unlock breaks locks of plain Terraform only")]
    NotByForceUnlock(Box<Holder>),
    #[error("the lock with this ID has ended: {reason}")]
    LockEnded {
        info: Box<LockInfo>,
        reason: String,
        kept: bool,
    },
    #[error("part of the scope is held by somebody else")]
    ScopeBusy(Busy),
    #[error("{ahead} asked before and wait for a part of the state")]
    Queued { ahead: u32 },
    #[error("part of what was to be added is held by somebody else")]
    ExtendConflict(Vec<Conflict>),
    #[error("the reservation has ended: {reason}")]
    LeaseLost { reason: String, kept: bool },
    #[error("{} not covered by a write claim of the run: {}", plural(.0), listed(.0))]
    OutsideScope(Vec<String>),
    #[error("there is no such run")]
    NoRun,
    #[error("this is the run of {0}")]
    NotYourRun(String),
    #[error("who only reads begins runs of kind `plan`")]
    MayNotWrite,
    #[error("{0}")]
    BadRequest(String),
    #[error("another Terraform works on this run")]
    BackendLocked(Box<LockInfo>),
    #[error("the lock ID is not that of the Terraform that works on this run")]
    OtherBackendLock(Box<LockInfo>),
    #[error("the serial is not above that of the run's last upload: a delayed duplicate")]
    LateUpload,
    #[error("the document's lineage is not that of the slice")]
    OtherLineage,
    #[error("the run has ended: {0}")]
    RunEnded(String),
    #[error("a run that only plans takes no lock but that of a plan, and no upload")]
    RunIsReadOnly,
    #[error("something that the scope needs may be missing")]
    ScopeUnsafe(Box<ScopeContract>),
    #[error("no sleeping run of this state made this plan, or it is too old")]
    PlanUnknown,
    #[error("an apply of this plan was begun before")]
    PlanSpent,
    #[error("this plan is being applied")]
    PlanInUse,
    #[error("`{address}` {what}")]
    PlanStale { address: String, what: String },
    #[error("there is no such kept upload")]
    NoKept,
    #[error("somebody has dealt with this upload")]
    KeptSettled,
    #[error("the state changed there, too, so say which is to stay: {}", listed(.0))]
    Undecided(Vec<String>),
    #[error("the run is damaged: {0}")]
    DamagedRun(&'static str),
    #[error("this key came with another request before")]
    KeyReused,
    #[error("the state is kept only as a document ({0}), and not as rows")]
    NotNative(String),
    #[error("`{0}` names nothing that can be claimed")]
    NotAClaim(String),
    #[error("this environment takes no write without a lock")]
    LockRequired,
    #[error("only a maintainer breaks another's lock")]
    MayNotBreak(Box<Holder>),
    #[error("serial {offered} does not follow the head's")]
    StaleSerial { offered: String, head: HeadFacts },
    #[error("the document's lineage is not the head's")]
    LineageMismatch { head: HeadFacts },
    #[error("`{field}` occurs more than once with different values")]
    AmbiguousField { field: String, head: HeadFacts },
    #[error("the state changed since this lock was granted")]
    VersionConflict { head: HeadFacts },
    #[error(
        "this document was written under the same lock before, and another after it: a delayed duplicate"
    )]
    LateDuplicate { head: HeadFacts },
    #[error(transparent)]
    Refused(#[from] tfstate::Refusal),
    #[error("the state is {0} and takes no writes")]
    NotWritable(&'static str),
    #[error("the version is kept as opaque bytes ({0}): it has no resources to speak of")]
    Opaque(String),
    #[error("`{field}`: {text:?} is not what belongs there")]
    BadScope { field: String, text: String },
    #[error("something stands at {0} already")]
    AddressTaken(String),
    #[error("the value at {0} is not the one that was to be replaced")]
    ValueDiffers(String),
    #[error("the target is the current version")]
    AlreadyCurrent,
    #[error("another state bears this name")]
    NameTaken,
    #[error("version {seq} is damaged: {what}")]
    Damaged { seq: i64, what: &'static str },
    #[error("too many watch states of the workspace by this replica")]
    TooManyWatchers,
    #[error("the workspace has sealed documents and no data key")]
    NoDataKey,
    /// A refusal that is told as it is, with its code.
    #[error("{1}")]
    Rejected(protocol::Code, String),
    #[error("the object store is away")]
    Blob(#[from] blob::BlobError),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Seal(#[from] store::SealError),
}

/// Addresses named in one sentence.
const NAMED: usize = 5;

fn listed(addresses: &[String]) -> String {
    let named: Vec<&str> = addresses.iter().take(NAMED).map(String::as_str).collect();
    match addresses.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn plural(addresses: &[String]) -> &'static str {
    if addresses.len() == 1 {
        "an address is"
    } else {
        "addresses are"
    }
}

#[cfg(feature = "faults")]
impl From<locking::Injected> for EngineError {
    fn from(injected: locking::Injected) -> Self {
        store::Error::from(injected).into()
    }
}
