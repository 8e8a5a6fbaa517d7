//! The HTTP client: one method per route, typed answers, one error type.
//!
//! Requests carry the token as a bearer token, never in an address. What may be repeated is
//! repeated here ([`Repeat`]); what a refusal means for the user is said in [`ApiError`]. No method
//! decides anything: commands do.

mod archives;
mod coding;
mod documents;
mod error;
mod events;
mod kept;
mod locks;
mod runs;
mod state_engine;
mod states;
mod tenancy;

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap,
    HeaderName, HeaderValue, RETRY_AFTER,
};
use reqwest::{Method, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use self::archives::Place;
pub(crate) use self::documents::Upload;
pub(crate) use self::error::ApiError;
pub(crate) use self::events::Events;
use crate::config::{Credential, Server};
use crate::failure::{Failure, Kind, Result};
use crate::output::Printer;
use crate::output::progress::Progress;

/// A server that does not even accept the connection in this time is not coming.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The server ends every request within 60 s by itself; a little longer and its answer is lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(75);
/// Waits before the second, third and fourth try. In sum they bridge a replica that is replaced,
/// and keep a person with a wrong address waiting for no more than two seconds.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
];
/// A `Retry-After` beyond this is not waited for: the user is told instead.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(10);

/// A server, and the token to show it.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    server: Server,
    credential: Option<Credential>,
    printer: Printer,
}

/// When a request that failed may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeat {
    /// Twice is the same as once: also after 502, 503 and 504 and after a lost answer.
    Freely,
    /// Only when it surely never arrived, which is when no connection came about.
    BeforeArrival,
}

/// A request before it is sent; it can be sent more than once.
struct Call {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Bytes>,
    /// The same body in gzip, where that is smaller.
    packed: Option<Bytes>,
    /// Where to show how much of the body is out, when that takes long.
    progress: Option<Progress>,
    repeat: Repeat,
    /// For the whole exchange; `None` where a document streams and only silence counts.
    timeout: Option<Duration>,
}

impl Call {
    fn new(method: Method, url: Url, repeat: Repeat) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: None,
            packed: None,
            progress: None,
            repeat,
            timeout: Some(ANSWER_TIMEOUT),
        }
    }

    fn get(url: Url) -> Self {
        Self::new(Method::GET, url, Repeat::Freely)
    }

    fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    fn body(mut self, body: Bytes) -> Self {
        self.body = Some(body);
        self.header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
    }

    fn json<T: Serialize>(self, value: &T) -> Result<Self, ApiError> {
        let body = serde_json::to_vec(value).map_err(ApiError::Unsendable)?;
        let packed = coding::pack(&body);
        let mut call = self.body(body.into());
        call.packed = packed;
        Ok(call)
    }

    fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl Client {
    /// Prepares a client. Sends nothing yet.
    pub(crate) fn new(
        server: Server,
        credential: Option<Credential>,
        printer: Printer,
    ) -> Result<Self> {
        let http = reqwest::Client::builder()
            .user_agent(concat!("kl/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(ANSWER_TIMEOUT)
            // A redirect of ours does not exist; following a foreign one could carry a write away.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| {
                Failure::new(Kind::Failed, error).context("could not set up the HTTP client")
            })?;
        Ok(Self {
            http,
            server,
            credential,
            printer,
        })
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Sends a call and reads the JSON of a successful answer.
    async fn json<T: DeserializeOwned>(&self, call: Call) -> Result<T, ApiError> {
        let path = call.url.path().to_owned();
        let gzip = HeaderValue::from_static("gzip");
        let response = self.send(call.header(ACCEPT_ENCODING, gzip)).await?;
        let headers = response.headers().clone();
        let body = response.bytes().await;
        let body = body.map_err(|error| ApiError::unreachable(&self.server, &error))?;
        let body = coding::unpack(&headers, body).map_err(|_| ApiError::Unreadable {
            path: path.clone(),
            line: 0,
            column: 0,
        })?;
        serde_json::from_slice(&body).map_err(|error| ApiError::Unreadable {
            path,
            line: error.line(),
            column: error.column(),
        })
    }

    /// Sends a call whose successful answer says nothing more.
    async fn done(&self, call: Call) -> Result<(), ApiError> {
        self.send(call).await.map(drop)
    }

    /// Sends a call, again where that may help, and turns every status but 2xx into an error.
    async fn send(&self, mut call: Call) -> Result<Response, ApiError> {
        let _waiting = match &call.progress {
            Some(_) => None,
            None => Some(Progress::waiting(self.printer, &self.server.to_string())),
        };
        let mut pauses = PAUSES.into_iter();
        loop {
            let outcome = self.send_once(&call).await;
            if let Ok(response) = &outcome
                && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE
                && call.packed.take().is_some()
            {
                // A server that takes JSON only as it is.
                continue;
            }
            let again = match &outcome {
                Ok(response) => self.again_after(response, call.repeat),
                // Whoever has waited that long in vain does not want to wait four times that.
                Err(error) if error.is_timeout() => None,
                Err(error) => {
                    (error.is_connect() || call.repeat == Repeat::Freely).then_some(Duration::ZERO)
                }
            };
            if let Some(asked) = again
                && let Some(pause) = pauses.next()
            {
                tokio::time::sleep(pause.max(asked)).await;
                continue;
            }
            let response = outcome.map_err(|error| ApiError::unreachable(&self.server, &error))?;
            if response.status().is_success() {
                return Ok(response);
            }
            return Err(ApiError::read(response, self.credential.is_some()).await);
        }
    }

    async fn send_once(&self, call: &Call) -> reqwest::Result<Response> {
        let mut request = self
            .http
            .request(call.method.clone(), call.url.clone())
            .headers(call.headers.clone());
        if let Some(credential) = &self.credential {
            request = request.header(AUTHORIZATION, bearer(credential));
        }
        if let Some(packed) = &call.packed {
            request = request
                .header(CONTENT_ENCODING, "gzip")
                .body(packed.clone());
        } else if let Some(body) = &call.body {
            request = match &call.progress {
                None => request.body(body.clone()),
                Some(progress) => request
                    .header(CONTENT_LENGTH, body.len())
                    .body(documents::in_pieces(body.clone(), progress.clone())),
            };
        }
        if let Some(timeout) = call.timeout {
            request = request.timeout(timeout);
        }
        request.send().await
    }

    /// Whether an answer asks to come back, and after how long at least.
    fn again_after(&self, response: &Response, repeat: Repeat) -> Option<Duration> {
        let away = matches!(
            response.status(),
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
        );
        if !away || repeat != Repeat::Freely {
            return None;
        }
        let asked = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .map_or(Duration::ZERO, Duration::from_secs);
        (asked <= LONGEST_RETRY_AFTER).then_some(asked)
    }
}

/// The header that carries the token, marked so that no log prints it.
fn bearer(credential: &Credential) -> HeaderValue {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", credential.0.expose()))
        // A token has neither blanks nor control characters: `credential::fetch` saw to it.
        .unwrap_or_else(|_| HeaderValue::from_static("Bearer"));
    value.set_sensitive(true);
    value
}
