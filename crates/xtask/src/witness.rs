//! A reverse proxy on a loopback port that writes down what terraform asks and what it is answered.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// One request and the status of its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    method: Method,
    status: StatusCode,
    body: Bytes,
}

impl Exchange {
    /// The document that was written, when this is a write that was accepted.
    pub(crate) fn into_written(self) -> Option<Bytes> {
        (self.method == Method::POST && self.status.is_success()).then_some(self.body)
    }
}

impl fmt::Display for Exchange {
    /// The method's first letter, and the status where it is not 200: `L G404 P U`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.method.as_str().get(..1).unwrap_or("?"))?;
        if self.status != StatusCode::OK {
            write!(f, "{}", self.status.as_u16())?;
        }
        Ok(())
    }
}

/// The exchanges as one line.
pub(crate) fn sequence(exchanges: &[Exchange]) -> String {
    let letters: Vec<String> = exchanges.iter().map(Exchange::to_string).collect();
    letters.join(" ")
}

type Log = Arc<Mutex<Vec<Exchange>>>;

/// A running witness. Dropping it closes the port.
#[derive(Debug)]
pub(crate) struct Witness {
    url: String,
    log: Log,
    task: JoinHandle<()>,
}

impl Witness {
    /// Forwards to `upstream`, an origin such as `http://127.0.0.1:8080`.
    pub(crate) async fn start(upstream: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let log = Log::default();
        let forward = Forward {
            client: reqwest::Client::new(),
            upstream: upstream.to_owned(),
            log: Arc::clone(&log),
        };
        let task = tokio::spawn(accept(listener, forward));
        Ok(Self { url, log, task })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What was exchanged since the last call.
    pub(crate) fn take(&self) -> Vec<Exchange> {
        std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, forward: Forward) {
    while let Ok((socket, _)) = listener.accept().await {
        let forward = forward.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let forward = forward.clone();
                async move { forward.answer(request).await }
            });
            // A connection that breaks shows in what terraform reports.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service)
                .await;
        });
    }
}

#[derive(Clone)]
struct Forward {
    client: reqwest::Client,
    upstream: String,
    log: Log,
}

impl Forward {
    /// Bodies are held whole and kept: the states that are watched are small.
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let target = head
            .uri
            .path_and_query()
            .context("a request without a path")?;

        let mut headers = head.headers;
        // These describe the connection to us, not the message.
        for name in [HOST, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
            headers.remove(name);
        }
        let answer = self
            .client
            .request(head.method.clone(), format!("{}{target}", self.upstream))
            .headers(headers)
            .body(body.clone())
            .send()
            .await?;

        let status = answer.status();
        let mut response = Response::builder().status(status);
        if let Some(headers) = response.headers_mut() {
            headers.extend(answer.headers().clone());
            headers.remove(CONNECTION);
            headers.remove(TRANSFER_ENCODING);
        }
        let response = response.body(Full::new(answer.bytes().await?))?;
        let exchange = Exchange {
            method: head.method,
            status,
            body,
        };
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(exchange);
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_names_only_unusual_statuses() {
        let exchange = |method: &str, status| Exchange {
            method: method.parse().unwrap(),
            status: StatusCode::from_u16(status).unwrap(),
            body: Bytes::new(),
        };
        let line = sequence(&[
            exchange("LOCK", 200),
            exchange("GET", 404),
            exchange("POST", 200),
            exchange("UNLOCK", 200),
        ]);
        assert_eq!(line, "L G404 P U");
        assert_eq!(sequence(&[]), "");
    }
}
