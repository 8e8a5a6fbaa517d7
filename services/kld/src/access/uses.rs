//! When and from where tokens were used last.
//!
//! Gathered in memory and written in batches: a write for each request would cost more than the request. What a
//! killed replica had not written yet is lost, which a "last used" can bear.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use auth::TokenId;
use axum::http::header;
use axum::http::request::Parts;
use chrono::Utc;
use store::Db;
use store::tenancy::credentials::{TokenUse, record_token_uses};

use crate::serve::PeerAddress;

/// The longest user agent that is kept.
const MAX_AGENT_CHARS: usize = 120;
/// How many tokens may wait to be written. Beyond that new ones are not noted until the next batch.
const MAX_WAITING: usize = 50_000;

/// The uses that wait to be written.
#[derive(Clone, Default)]
pub struct TokenUses(Arc<Mutex<HashMap<TokenId, TokenUse>>>);

impl TokenUses {
    /// Notes a use.
    pub(super) fn note(&self, token_id: &TokenId, parts: &Parts) {
        let network = parts
            .extensions
            .get::<PeerAddress>()
            .map(|peer| network(peer.0.ip()));
        let agent = parts
            .headers
            .get(header::USER_AGENT)
            .and_then(|agent| agent.to_str().ok());
        let agent = agent.map(|agent| agent.chars().take(MAX_AGENT_CHARS).collect());
        let used = TokenUse {
            token_id: token_id.clone(),
            at: Utc::now(),
            network,
            agent,
        };
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MAX_WAITING || waiting.contains_key(token_id) {
            waiting.insert(token_id.clone(), used);
        }
    }

    /// Writes what waits. A batch that cannot be written is dropped: the next use says the same.
    pub async fn write(&self, db: &Db) {
        let waiting = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if waiting.is_empty() {
            return;
        }
        let uses: Vec<TokenUse> = waiting.into_values().collect();
        if let Err(error) = record_token_uses(db, &uses).await {
            tracing::warn!(
                error = %telemetry::Chain(&error),
                count = uses.len(),
                "could not note when tokens were last used"
            );
        }
    }
}

/// The network of an address: enough to see where a token is used, not who sits there.
fn network(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        IpAddr::V6(address) => {
            let [a, b, c, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}::/48")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_kept_without_its_last_part() {
        assert_eq!(network("192.0.2.77".parse().unwrap()), "192.0.2.0/24");
        assert_eq!(
            network("::ffff:192.0.2.77".parse().unwrap()),
            "192.0.2.0/24"
        );
        assert_eq!(
            network("2001:db8:1:2::3".parse().unwrap()),
            "2001:db8:1::/48"
        );
    }
}
