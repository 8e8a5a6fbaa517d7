//! What a client is told when a request is refused, and what the log is told beside it.
//!
//! The two are kept apart: [`ApiError`] carries a code and a detail for the client, and a cause for the log that is
//! never sent. The dispatcher renders it, since only it knows the request id and the lane.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::Code;
use serde::Serialize;
use serde_json::{Map, Value};

/// When a client that met a busy or absent store should come back, in seconds. Terraform takes it instead of its own
/// backoff of one second, reads only the integer form, and tries three times in all.
const RETRY_AFTER_SECONDS: u32 = 2;

/// A refusal.
#[derive(Debug, Clone)]
pub struct ApiError(Box<Inner>);

#[derive(Debug, Clone)]
pub(crate) struct Inner {
    pub(crate) code: Code,
    pub(crate) detail: Option<String>,
    pub(crate) extra: Map<String, Value>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// The cause with its chain, already in words, for the log only.
    pub(crate) cause: Option<String>,
}

impl ApiError {
    /// A refusal with the code's own title and status.
    #[must_use]
    pub fn new(code: Code) -> Self {
        Self(Box::new(Inner {
            code,
            detail: None,
            extra: Map::new(),
            headers: Vec::new(),
            cause: None,
        }))
    }

    /// A refusal that says what happened in this case. The text is for the client: no SQL, no paths, nothing of other
    /// workspaces, no values of a state.
    #[must_use]
    pub fn with_detail(code: Code, detail: impl Into<String>) -> Self {
        let mut error = Self::new(code);
        error.0.detail = Some(detail.into());
        error
    }

    /// Something is wrong with the service. The cause is logged with its chain and never sent.
    #[must_use]
    pub fn internal(cause: &(dyn std::error::Error + 'static)) -> Self {
        Self::new(Code::Internal).caused_by(cause)
    }

    /// Adds a member to the answer: the current serial, the holder's LockInfo.
    ///
    /// # Panics
    ///
    /// When the value cannot be JSON, which none of ours is.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Serialize) -> Self {
        let value = serde_json::to_value(value).expect("members of problems are plain data");
        self.0.extra.insert(key.to_owned(), value);
        self
    }

    /// Adds all members of an object to the answer, at the top level.
    #[must_use]
    pub fn with_members(mut self, object: impl Serialize) -> Self {
        if let Ok(Value::Object(members)) = serde_json::to_value(object) {
            self.0.extra.extend(members);
        }
        self
    }

    /// Adds a header to the answer.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }

    /// Asks the client to come back in so many seconds.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Self {
        self.with_header(header::RETRY_AFTER, seconds.into())
    }

    /// Notes what led to this, for the log.
    #[must_use]
    pub fn caused_by(mut self, cause: &(dyn std::error::Error + 'static)) -> Self {
        self.0.cause = Some(telemetry::Chain(cause).to_string());
        self
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    pub(crate) fn into_inner(self) -> Inner {
        *self.0
    }
}

impl IntoResponse for ApiError {
    /// Leaves the error in the response's extensions; the dispatcher writes the body.
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.code().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<store::Error> for ApiError {
    fn from(error: store::Error) -> Self {
        if let store::Error::Unstorable(_) = &error {
            return Self::with_detail(
                Code::InvalidRequest,
                "the request holds a value that cannot be stored: a NUL character, or a key that is too long",
            );
        }
        let code = match &error {
            store::Error::OutcomeUnknown(_) => Code::OutcomeUnknown,
            error if error.is_temporary() => Code::Unavailable,
            store::Error::HistoryLost => Code::HistoryLost,
            store::Error::SchemaMismatch { .. } => Code::SchemaMismatch,
            _ => Code::Internal,
        };
        let refusal = Self::new(code).caused_by(&error);
        if code == Code::Internal {
            refusal
        } else {
            refusal.retry_after(RETRY_AFTER_SECONDS)
        }
    }
}
