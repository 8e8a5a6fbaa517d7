//! Why a use case did not do what was asked: one variant per thing a caller can do about it.

use protocol::LockInfo;

/// Who holds a state, as far as the members of its workspace may know.
#[derive(Debug, Clone)]
pub struct Holder {
    pub info: LockInfo,
    pub reservation: uuid::Uuid,
    pub lane: String,
    pub principal: String,
    pub since: chrono::DateTime<chrono::Utc>,
    pub last_active: chrono::DateTime<chrono::Utc>,
    pub expires_at: Option<chrono::DateTime<chrono::Utc>>,
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
    #[error("the lock with this ID has ended: {reason}")]
    LockEnded {
        info: Box<LockInfo>,
        reason: String,
        kept: bool,
    },
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
    #[error("the target is the current version")]
    AlreadyCurrent,
    #[error("another state bears this name")]
    NameTaken,
    #[error("version {seq} is damaged: {what}")]
    Damaged { seq: i64, what: &'static str },
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
