//! Streams of events: one that breaks is taken up again where it broke, perhaps by another replica.

use std::time::Duration;

use protocol::RunId;
use protocol::events::{Bye, ByeReason, Event};
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Response, Url};

use super::{ApiError, Call, Client};
use crate::config::StateAddress;

/// Between the end of a stream and the next: a replica that goes away has just told the balancer so.
const PAUSE: Duration = Duration::from_secs(1);
/// An event is far smaller. Whoever sends more without an end of one is not our service.
const LARGEST_EVENT: usize = 16 * 1024 * 1024;

/// Events as they come.
pub(crate) struct Events {
    client: Client,
    url: Url,
    response: Option<Response>,
    /// What was received and not yet read.
    text: Vec<u8>,
    /// The id of the last event that had one.
    last_id: Option<String>,
}

impl Client {
    pub(crate) fn watch_state(&self, state: &StateAddress) -> Events {
        self.events(state.route(&["events"]))
    }

    pub(crate) fn watch_run(&self, run: &RunId) -> Events {
        let run = run.to_string();
        self.events(self.server.route(&["v1", "runs", &run, "events"]))
    }

    fn events(&self, url: Url) -> Events {
        Events {
            client: self.clone(),
            url,
            response: None,
            text: Vec::new(),
            last_id: None,
        }
    }
}

impl Events {
    /// The next event; `None` when nothing more is to be expected.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, ApiError> {
        loop {
            while let Some(block) = self.take_block() {
                match self.read(&block)? {
                    Some(Event::Bye(Bye {
                        reason: ByeReason::Over,
                    })) => return Ok(None),
                    // Asked for again, the service says what is wrong, or another replica goes on.
                    Some(Event::Bye(_)) => self.drop_stream().await,
                    Some(event) => return Ok(Some(event)),
                    None => {}
                }
            }
            let response = match &mut self.response {
                Some(response) => response,
                None => {
                    let opened = self.open().await?;
                    self.response.insert(opened)
                }
            };
            match response.chunk().await {
                Ok(Some(chunk)) if self.text.len() + chunk.len() <= LARGEST_EVENT => {
                    self.text.extend_from_slice(&chunk);
                }
                Ok(_) | Err(_) => self.drop_stream().await,
            }
        }
    }

    async fn open(&self) -> Result<Response, ApiError> {
        let mut call = Call::get(self.url.clone());
        // Only silence counts.
        call.timeout = None;
        if let Some(id) = &self.last_id
            && let Ok(id) = HeaderValue::from_str(id)
        {
            call = call.header(HeaderName::from_static("last-event-id"), id);
        }
        self.client.send(call).await
    }

    async fn drop_stream(&mut self) {
        self.response = None;
        self.text.clear();
        tokio::time::sleep(PAUSE).await;
    }

    /// What stands before the next empty line.
    fn take_block(&mut self) -> Option<String> {
        let end = self.text.windows(2).position(|pair| pair == b"\n\n")?;
        let block: Vec<u8> = self.text.drain(..end + 2).collect();
        Some(String::from_utf8_lossy(&block).into_owned())
    }

    fn read(&mut self, block: &str) -> Result<Option<Event>, ApiError> {
        let (mut name, mut data) = (None, Vec::new());
        for line in block.lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => name = Some(value),
                "data" => data.push(value),
                "id" => self.last_id = Some(value.to_owned()),
                _ => {}
            }
        }
        let Some(name) = name else { return Ok(None) };
        let event = Event::read(name, &data.join("\n"));
        event.map_err(|error| ApiError::Unreadable {
            path: self.url.path().to_owned(),
            line: error.line(),
            column: error.column(),
        })
    }
}
