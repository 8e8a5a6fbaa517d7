//! Tickets: a waiter's place in the queue, in its own hands.
//!
//! The queue lives in Redis and may be lost; a client that comes back with its ticket gets its old place. It is signed,
//! so that nobody can claim to have waited longer.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::StateKey;

/// Signs tickets. All replicas of a deployment have the same.
#[derive(Clone)]
pub struct TicketKey([u8; 32]);

/// A waiter's place: since when it waits, in milliseconds of Redis's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    pub first_seen_ms: u64,
}

impl TicketKey {
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// The ticket of the request with this key for this state, as its client carries it.
    #[must_use]
    pub fn sign(&self, state: &StateKey, key: &str, ticket: Ticket) -> String {
        let time = ticket.first_seen_ms.to_be_bytes();
        let mut bytes = time.to_vec();
        bytes.extend_from_slice(&self.mac(state, key, time).finalize().into_bytes()[..16]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a ticket; `None` if it is not one, or belongs to another request or state.
    #[must_use]
    pub fn verify(&self, state: &StateKey, key: &str, text: &str) -> Option<Ticket> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (time, mac) = bytes.split_first_chunk::<8>()?;
        self.mac(state, key, *time)
            .verify_truncated_left(mac)
            .ok()?;
        (mac.len() == 16).then(|| Ticket {
            first_seen_ms: u64::from_be_bytes(*time),
        })
    }

    fn mac(&self, state: &StateKey, key: &str, time: [u8; 8]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("a MAC takes a key of any length");
        mac.update(b"kilolock queue ticket 1\n");
        mac.update(&time);
        mac.update(state.to_string().as_bytes());
        mac.update(b"\n");
        mac.update(key.as_bytes());
        mac
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_ticket_is_good_for_its_own_request_alone() {
        let signer = TicketKey::new([7; 32]);
        let state = |n| StateKey {
            workspace: "ws_a".to_owned(),
            state: Uuid::from_u128(n),
        };
        let ticket = Ticket {
            first_seen_ms: 1_764_000_000_123,
        };
        let text = signer.sign(&state(1), "key", ticket);
        assert_eq!(signer.verify(&state(1), "key", &text), Some(ticket));
        assert_eq!(signer.verify(&state(2), "key", &text), None);
        assert_eq!(signer.verify(&state(1), "other", &text), None);
        assert_eq!(
            TicketKey::new([8; 32]).verify(&state(1), "key", &text),
            None
        );
        for broken in ["", "x", &text[..text.len() - 2], &text[1..]] {
            assert_eq!(signer.verify(&state(1), "key", broken), None, "{broken}");
        }
    }
}
