//! Requests as clients send them: over the balancer, repeated with the same bytes until somebody has spoken.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use md5::{Digest as _, Md5};
use reqwest::{Client, Method};
use serde_json::Value;

/// How long one request may take on top of what it asks to wait.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long a client goes on repeating a request before it gives up not knowing.
const PERSEVERANCE: Duration = Duration::from_secs(20);
const FIRST_PAUSE: Duration = Duration::from_millis(40);
const LONGEST_PAUSE: Duration = Duration::from_millis(800);

/// Whose request it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    Writer,
    Admin,
    /// A run's own Terraform, by its password.
    Run(String),
}

/// A request, the same each time it is sent.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: Method,
    pub path: String,
    pub who: Who,
    pub body: Option<Vec<u8>>,
    /// How long the service is asked to wait before it answers.
    pub wait: Duration,
}

impl Request {
    #[must_use]
    pub fn new(method: &str, path: impl Into<String>, who: Who) -> Self {
        Self {
            method: Method::from_bytes(method.as_bytes()).unwrap_or(Method::GET),
            path: path.into(),
            who,
            body: None,
            wait: Duration::ZERO,
        }
    }

    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.bytes(body.to_string().into_bytes())
    }

    #[must_use]
    pub fn bytes(mut self, body: Vec<u8>) -> Self {
        self.body = Some(body);
        self
    }

    #[must_use]
    pub fn waiting(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }
}

/// An answer.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Reply {
    #[must_use]
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body, or null.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The stable code of a refusal.
    #[must_use]
    pub fn code(&self) -> String {
        let code = self.json()["code"].as_str().map(str::to_owned);
        code.unwrap_or_default()
    }

    fn is_trouble(&self) -> bool {
        // A refusal without a code is the balancer's, of a request that a broken link has cut off.
        let is_refused = self.status >= 400 && self.code().is_empty();
        self.status >= 500 || self.status == 429 || self.status == 408 || is_refused
    }
}

/// What came of repeating a request.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// The first answer that is none of a service in trouble.
    pub reply: Option<Reply>,
    pub tries: u32,
    pub troubles: u32,
    /// The last trouble, in words.
    pub trouble: String,
}

/// The way to the service.
#[derive(Clone)]
pub struct Wire {
    client: Client,
    bases: Vec<String>,
    /// `workspace/environment`.
    pub place: String,
    writer: String,
    admin: String,
}

impl Wire {
    /// # Errors
    ///
    /// When no client can be built.
    pub fn new(
        bases: Vec<String>,
        place: String,
        writer: String,
        admin: String,
    ) -> anyhow::Result<Self> {
        let client = Client::builder()
            .connect_timeout(Duration::from_secs(2))
            .http1_only()
            .build()?;
        Ok(Self {
            client,
            bases,
            place,
            writer,
            admin,
        })
    }

    /// Sends a request once; the error is what the connection says.
    ///
    /// # Errors
    ///
    /// When no whole answer came.
    pub async fn send(&self, by: usize, request: &Request) -> Result<Reply, String> {
        let url = format!("{}{}", self.bases[by % self.bases.len()], request.path);
        let mut builder = self
            .client
            .request(request.method.clone(), url)
            .timeout(PATIENCE + request.wait);
        builder = match &request.who {
            Who::Writer => builder.bearer_auth(&self.writer),
            Who::Admin => builder.bearer_auth(&self.admin),
            Who::Run(password) => builder.basic_auth("run", Some(password)),
        };
        if let Some(body) = &request.body {
            builder = builder
                .header("Content-Type", "application/json")
                .header("Content-MD5", BASE64_STANDARD.encode(Md5::digest(body)))
                .body(body.clone());
        }
        let answer = builder.send().await.map_err(|error| words(&error))?;
        let status = answer.status().as_u16();
        let body = answer.bytes().await.map_err(|error| words(&error))?;
        Ok(Reply {
            status,
            body: body.to_vec(),
        })
    }

    /// Sends a request until somebody has spoken, or the client loses heart.
    pub async fn repeat(&self, by: usize, request: &Request) -> Said {
        let mut said = Said::default();
        let began = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            said.tries += 1;
            match self.send(by, request).await {
                Ok(reply) if !reply.is_trouble() => {
                    said.reply = Some(reply);
                    return said;
                }
                Ok(reply) => said.trouble = format!("{} {}", reply.status, reply.code()),
                Err(error) => said.trouble = error,
            }
            said.troubles += 1;
            if began.elapsed() > PERSEVERANCE {
                return said;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// What went wrong, by its innermost cause.
fn words(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    cause.to_string()
}
