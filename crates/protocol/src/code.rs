//! The stable error codes of the API.
//!
//! A client branches on the code, never on the text. A code is never renamed and never changes its meaning; a new
//! situation gets a new code. One table holds all there is to know about each.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Declares the codes: `Variant = "wire_form", status, "title", "what it means and what to do"`.
macro_rules! codes {
    ($($variant:ident = $wire:literal, $status:literal, $title:literal, $doc:literal;)*) => {
        /// Why a request was refused: a stable identifier, the same on every route.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
        pub enum Code {
            $(
                #[doc = $doc]
                #[serde(rename = $wire)]
                $variant,
            )*
            /// A code this program is too old to know. Never sent.
            #[serde(other, rename = "unrecognised")]
            Unrecognised,
        }

        impl Code {
            /// Every code the service may send.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The code as it is written on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $wire,)*
                    Self::Unrecognised => "unrecognised",
                }
            }

            /// The HTTP status that goes with the code. The Terraform lane deviates in the places its table names.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self {
                    $(Self::$variant => $status,)*
                    Self::Unrecognised => 500,
                }
            }

            /// A short summary, the same for every occurrence.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self {
                    $(Self::$variant => $title,)*
                    Self::Unrecognised => "Unrecognised error",
                }
            }

            /// What the code means and what a caller can do, for the reference.
            #[must_use]
            pub const fn doc(self) -> &'static str {
                match self {
                    $(Self::$variant => $doc,)*
                    Self::Unrecognised => "A code this program is too old to know.",
                }
            }
        }
    };
}

codes! {
    // Who is calling.
    Unauthenticated = "unauthenticated", 401, "Login required",
        "No valid token came with the request. Tokens go into `Authorization: Bearer` or into the password of Basic authentication.";
    TokenInQuery = "token_in_query", 400, "Token in the address",
        "The query string holds a token. Addresses end up in logs, so it is refused; revoke that token and send a new one in a header.";
    Forbidden = "forbidden", 403, "Not allowed",
        "The caller's role does not include this action here.";
    WorkspaceSuspended = "workspace_suspended", 403, "Workspace suspended",
        "The workspace is suspended. Its states are kept; an operator can resume it.";

    // What was asked for.
    NotFound = "not_found", 404, "Not found",
        "There is no such thing, or the caller has no right to know of it.";
    StateNotFound = "state_not_found", 404, "No such state",
        "Nothing was ever written under this name in this environment.";
    VersionNotFound = "version_not_found", 404, "No such version",
        "The state has no version of that number or id, or it is no longer kept.";
    StateDeleted = "state_deleted", 409, "State deleted",
        "The state was deleted while it was being worked on. Undelete it, or write it anew.";
    StateExists = "state_exists", 409, "Name in use",
        "A state of this name exists already.";
    NotAcceptable = "not_acceptable", 406, "Not acceptable",
        "None of the representations the request accepts is available.";
    MethodNotAllowed = "method_not_allowed", 405, "Method not allowed",
        "The address exists, but not with this method. `Allow` lists those it has.";

    // How it was asked.
    InvalidRequest = "invalid_request", 400, "Invalid request",
        "A parameter, header or field is missing or ill-formed; the detail names it.";
    InvalidName = "invalid_name", 400, "Invalid name",
        "A name starts with a letter or digit, goes on with letters, digits, `.`, `_`, `-`, and has at most 128 characters.";
    NameCase = "name_case", 400, "Name spelled differently",
        "The state exists in another spelling of upper and lower case. Use the spelling the detail gives.";
    InvalidJson = "invalid_json", 400, "Not valid JSON",
        "The body is not valid JSON, or not of the expected shape; the detail says where.";
    EncodingNotJson = "encoding_not_json", 400, "Not UTF-8 JSON",
        "The body starts with a byte order mark or is in another encoding than UTF-8. Convert it first.";
    UnsupportedEncoding = "unsupported_encoding", 415, "Unsupported content encoding",
        "The body's Content-Encoding is not supported, or the body is not what it says.";
    UnsupportedMediaType = "unsupported_media_type", 415, "Unsupported media type",
        "The body's Content-Type is not `application/json`.";
    DigestMismatch = "digest_mismatch", 400, "Checksum does not match",
        "Content-MD5 is ill-formed or is not that of the bytes that arrived. Nothing was stored; send it again.";
    BodyTooLarge = "body_too_large", 413, "Body too large",
        "The body is larger than the route accepts.";
    BodyTooSlow = "body_too_slow", 408, "Body too slow",
        "The body came in more slowly than 16 KiB/s. Nothing was stored.";
    Timeout = "timeout", 503, "Timed out",
        "The request was not finished in time. It may be repeated.";
    DuplicateAddress = "duplicate_address", 422, "Duplicate address",
        "The state lists one resource or instance twice; the detail names it. Terraform would refuse to load it.";
    DuplicateKey = "duplicate_key", 422, "Duplicate JSON key",
        "An object of the document names one key twice; the detail names it.";
    UnsupportedState = "unsupported_state", 422, "Unsupported state document",
        "The document is JSON but no state this service can keep; the detail says why.";
    SerialOutOfRange = "serial_out_of_range", 422, "Serial out of range",
        "The serial is not a whole number from 0 to 2^64-1.";
    IdempotencyMismatch = "idempotency_mismatch", 422, "Idempotency key used before",
        "This Idempotency-Key came with another request before. Use a new key for a new request.";
    QueryAmbiguous = "query_ambiguous", 400, "Ambiguous request",
        "A parameter was given twice, or two parts of the request name different things.";

    // Locks and versions.
    StateLocked = "state_locked", 423, "State locked",
        "Somebody holds the state; the answer says who. Wait, or have it released.";
    LockIdMismatch = "lock_id_mismatch", 409, "Another lock is held",
        "The request names a lock id, but another lock holds the state.";
    LockEnded = "lock_ended", 409, "Lock has ended",
        "The lock of this id was released or broken before; it does not come to life again. Take a new lock.";
    LockRequired = "lock_required", 409, "Lock required",
        "The environment accepts writes only under a lock. Configure `lock_address` and `unlock_address`.";
    LockNotHeld = "lock_not_held", 409, "Lock not held",
        "Nothing holds the state, so there is nothing to release or to write under.";
    StaleSerial = "stale_serial", 409, "Serial is not above the current one",
        "Another write came first. Read the state again; the answer gives the current serial and lineage.";
    LineageMismatch = "lineage_mismatch", 409, "Another lineage",
        "The document belongs to another history than the state. The answer gives the current lineage.";
    VersionConflict = "version_conflict", 409, "Changed meanwhile",
        "The state moved on since it was read. Read it again and repeat the change.";
    ReservationConflict = "reservation_conflict", 423, "Scope is busy",
        "Somebody holds part of the scope; `conflicts` says who and what. Send `ticket` along to keep the place in the queue.";
    ExtendConflict = "extend_conflict", 409, "Cannot reserve more",
        "Somebody holds what was to be added. A run that holds something never waits: finish it and begin a wider one.";
    LeaseLost = "lease_lost", 409, "Lease lost",
        "The reservation has ended; the detail says how. What is uploaded from now on is kept, not committed: see `kl recover`.";
    RunEnded = "run_ended", 409, "Run has ended",
        "The run was finished, aborted, or its lease ran out. Begin a new one.";
    RunIsReadOnly = "run_read_only", 409, "Run only plans",
        "A run that only plans takes no upload. Begin a run of kind `apply`.";
    ScopeUnsafe = "unsafe_scope_closure", 422, "Scope cannot be proven",
        "Something that the scope needs may be missing; `contract` says what. Widen the scope, or work on the whole state.";
    OutsideScope = "outside_scope", 409, "Outside the scope",
        "An address that was written is not covered by a write claim of the run; the detail names it.";
    PlanUnknown = "plan_unknown", 404, "No run has made this plan",
        "No sleeping run of this state made a plan file with this SHA-256, or it is too old. Plan again.";
    PlanSpent = "plan_spent", 409, "Plan applied before",
        "An apply of this plan was begun before; a second one would do everything twice. Plan again.";
    PlanStale = "plan_stale", 409, "Plan is stale",
        "Part of the slice changed since the plan was made; the detail names address, run and person. Plan again.";
    NativeUnsupported = "native_commit_not_supported", 422, "Not as rows",
        "The state is kept only as a document (encrypted, or of an unknown version): work on the whole state instead.";
    Conflict = "conflict", 409, "Conflict",
        "The request contradicts the present state of things; the detail says how.";
    TagExists = "tag_exists", 409, "Tag names another version",
        "A tag of this name exists and names another version. Ask for it to be moved, or take another name.";
    JobEnded = "job_ended", 409, "Job has ended",
        "The job has ended, so nothing can be done with it any more; its status says how.";
    JobNotReady = "job_not_ready", 409, "Not ready yet",
        "The job has not come to the point where this can be done; its status says how far it is.";
    UploadIncomplete = "upload_incomplete", 409, "Upload incomplete",
        "Parts of the archive are missing or not of the size that was announced. Ask which, and put them.";
    NameTaken = "name_taken", 409, "Name taken",
        "Another of the same kind has this name, perhaps in another spelling of upper and lower case.";

    // Objects under signed addresses.
    SignatureRejected = "signature_rejected", 403, "Address not valid",
        "The signed address is not valid for this: it has expired, was changed, or is for another object, method or body.";
    ArchivesOff = "archives_off", 409, "Archives are not set up",
        "This deployment has no place to keep archives. An operator sets `KL_BLOBS`.";

    // Limits.
    RateLimited = "rate_limited", 429, "Too many requests",
        "The caller or its workspace is over its rate. `Retry-After` says when to come back.";
    QuotaExceeded = "quota_exceeded", 507, "Quota exceeded",
        "The workspace has used up what it may store.";

    // The service itself.
    Unavailable = "unavailable", 503, "Unavailable",
        "A store is away or busy. Nothing is known to be wrong with the request; repeat it after `Retry-After` seconds.";
    OutcomeUnknown = "outcome_unknown", 503, "Outcome unknown",
        "The connection to the store broke during the commit. Repeat the same request; it is done at most once.";
    HistoryLost = "history_lost", 503, "Database lost history",
        "The database is older than it was: it was restored from a backup, or a standby without all commits took over. Reads go on. An operator has to run `kld restore-finish`.";
    SchemaMismatch = "schema_mismatch", 503, "Database schema too old",
        "The database has not been migrated to what this release needs. Run `kld migrate`.";
    StateDamaged = "state_damaged", 500, "Stored state is damaged",
        "What is stored does not match its digest, so it is not served. An operator has been alarmed.";
    Internal = "internal", 500, "Internal error",
        "Something is wrong with the service. The request id leads to its log.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn codes_are_distinct_and_read_back_as_they_are_written() {
        let mut seen = HashSet::new();
        for &code in Code::ALL {
            assert!(seen.insert(code.as_str()), "{code} twice");
            let json = serde_json::to_string(&code).unwrap();
            assert_eq!(json, format!("\"{code}\""));
            assert_eq!(serde_json::from_str::<Code>(&json).unwrap(), code);
        }
    }

    #[test]
    fn a_code_of_a_newer_release_is_still_a_problem() {
        assert_eq!(
            serde_json::from_str::<Code>("\"from_the_future\"").unwrap(),
            Code::Unrecognised
        );
    }

    #[test]
    fn every_code_is_an_error_with_a_title_and_a_meaning() {
        for code in Code::ALL {
            assert!((400..600).contains(&code.status()), "{code}");
            assert!(
                !code.title().is_empty() && code.doc().ends_with('.'),
                "{code}"
            );
        }
    }
}
