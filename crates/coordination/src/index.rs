//! The reservation index: what is held and who waits, by compiled claims.

use graph::claims::Nodes;
use locking::times::{END_REMEMBERED, NATIVE_WAITER, PENDING, SETTLING, TERRAFORM_WAITER};
use locking::{Rule, holds};
use uuid::Uuid;

use crate::keys::News;
use crate::link::{Away, Link, Script};
use crate::nodes::encode;
use crate::{Place, StateKey, Ticket};

/// A request for a reservation.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    pub key: &'a StateKey,
    /// Which life of the database the caller knows.
    pub incarnation: i64,
    /// The request's idempotency key.
    pub idem_key: &'a str,
    pub nodes: &'a Nodes,
    pub queue: Queueing,
    /// What others are shown of the request while it waits.
    pub about: &'a str,
}

/// How a request waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queueing {
    /// As a native client: it has a place from its first try on, and carries a ticket.
    Native(Option<Ticket>),
    /// As a native client that does not mean to wait: it has a place only if it comes back.
    Once,
    /// As plain Terraform: it has a place from its second try on, because a client that tries only once holds nobody up.
    Terraform,
}

/// What the index says to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// Go to the ledger, which may still refuse. With the highest gen up to which the index knows everything.
    Admitted { known_gen: i64 },
    /// Something stands in the way.
    Wait(Place),
    /// The index has to be loaded from the ledger first.
    Rebuild,
}

/// A reservation that the ledger holds.
#[derive(Debug, Clone)]
pub struct Held {
    pub id: Uuid,
    pub granted_gen: i64,
    pub nodes: Nodes,
    /// What waiters are shown of it.
    pub info: String,
}

/// Up to where the index knows every grant and end of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub incarnation: i64,
    pub known_gen: i64,
}

/// Whether somebody is known to have waited for a part of a state before its table was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contention {
    Seen,
    Unknown,
}

/// What became of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loaded {
    /// The index is what the ledger held.
    Yes,
    /// The index knew as much already.
    Kept,
    /// The index belongs to a later life of the database than the caller knows.
    Newer,
}

/// The index of all states, behind one connection. Cheap to clone.
#[derive(Clone)]
pub struct Index {
    link: Link,
    scripts: std::sync::Arc<Scripts>,
}

struct Scripts {
    admit: Script,
    confirm: Script,
    end: Script,
    load: Script,
    waiting: Script,
    leave: Script,
    forget: Script,
}

impl Index {
    #[must_use]
    pub fn new(link: Link) -> Self {
        let scripts = Scripts {
            admit: Script::new(include_str!("scripts/admit.lua")),
            confirm: Script::new(include_str!("scripts/confirm.lua")),
            end: Script::new(include_str!("scripts/end.lua")),
            load: Script::new(include_str!("scripts/load.lua")),
            waiting: Script::new(include_str!("scripts/waiting.lua")),
            leave: Script::new(include_str!("scripts/leave.lua")),
            forget: Script::new(include_str!("scripts/forget.lua")),
        };
        Self {
            link,
            scripts: std::sync::Arc::new(scripts),
        }
    }

    #[must_use]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Asks whether a request may go to the ledger. One that may not is put into the queue, or keeps its place there.
    pub async fn admit(&self, ask: &Ask<'_>) -> Result<Admission, Away> {
        let (first_seen, ttl, earns_place) = match ask.queue {
            Queueing::Native(ticket) => (
                ticket.map_or(0, |ticket| ticket.first_seen_ms),
                NATIVE_WAITER,
                true,
            ),
            Queueing::Once => (0, NATIVE_WAITER, false),
            Queueing::Terraform => (0, TERRAFORM_WAITER, false),
        };
        let arguments = [
            ask.incarnation.to_string(),
            ask.idem_key.to_owned(),
            encode(ask.nodes),
            first_seen.to_string(),
            ttl.as_millis().to_string(),
            u8::from(earns_place).to_string(),
            PENDING.as_millis().to_string(),
            ask.about.to_owned(),
            END_REMEMBERED.as_millis().to_string(),
            u8::from(holds(Rule::QueueOrder)).to_string(),
            SETTLING.as_millis().to_string(),
        ];
        let answer: Vec<String> = self
            .link
            .run(&self.scripts.admit, &ask.key.tables(), &arguments)
            .await?;
        read_admission(&answer).ok_or(Away)
    }

    /// Tells that the ledger granted what was admitted, or gave a reservation more claims. Best effort: a lost call is made good by the next load.
    pub async fn confirm(
        &self,
        key: &StateKey,
        incarnation: i64,
        idem_key: &str,
        held: &Held,
    ) -> Result<(), Away> {
        let arguments = [
            incarnation.to_string(),
            idem_key.to_owned(),
            held.id.to_string(),
            held.granted_gen.to_string(),
            encode(&held.nodes),
            held.info.clone(),
        ];
        let _: Vec<String> = self
            .link
            .run(&self.scripts.confirm, &key.tables(), &arguments)
            .await?;
        Ok(())
    }

    /// Tells that the ledger ended a reservation, and wakes those who wait for the state. Best effort.
    pub async fn end(
        &self,
        key: &StateKey,
        incarnation: i64,
        id: Uuid,
        ended_gen: i64,
    ) -> Result<(), Away> {
        let arguments = [
            incarnation.to_string(),
            id.to_string(),
            ended_gen.to_string(),
            key.channel(),
        ];
        let _: Vec<String> = self
            .link
            .run(&self.scripts.end, &key.tables(), &arguments)
            .await?;
        Ok(())
    }

    /// Tells those who watch a state, on every replica, that there is something to see. Best effort: they also poll.
    pub async fn tell_watchers(&self, key: &StateKey) -> Result<(), Away> {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(key.channel_of(News::Changed)).arg("");
        let _: i64 = self.link.query(&publish).await?;
        Ok(())
    }

    /// Replaces the table of a state by what the ledger held at `gen`, unless it knows more, and wakes those who wait.
    /// Where the table was lost those take their places again before anybody is admitted.
    pub async fn load(
        &self,
        key: &StateKey,
        incarnation: i64,
        r#gen: i64,
        held: &[Held],
        contention: Contention,
    ) -> Result<Loaded, Away> {
        let mut arguments = vec![
            incarnation.to_string(),
            r#gen.to_string(),
            SETTLING.as_millis().to_string(),
            key.channel(),
            u8::from(contention == Contention::Seen).to_string(),
        ];
        for one in held {
            arguments.extend([
                one.id.to_string(),
                one.granted_gen.to_string(),
                encode(&one.nodes),
                one.info.clone(),
            ]);
        }
        let answer: Vec<String> = self
            .link
            .run(&self.scripts.load, &key.tables(), &arguments)
            .await?;
        match answer.first().map(String::as_str) {
            Some("LOADED") => Ok(Loaded::Yes),
            Some("KEPT") => Ok(Loaded::Kept),
            Some("NEWER") => Ok(Loaded::Newer),
            _ => Err(Away),
        }
    }

    /// What the index knows of a state; `None` where it has no table of it.
    pub async fn mark(&self, key: &StateKey) -> Result<Option<Mark>, Away> {
        let [meta, ..] = key.tables();
        let mut get = redis::cmd("HMGET");
        get.arg(meta).arg("inc").arg("wm");
        let (incarnation, known_gen): (Option<i64>, Option<i64>) = self.link.query(&get).await?;
        Ok(incarnation
            .zip(known_gen)
            .map(|(incarnation, known_gen)| Mark {
                incarnation,
                known_gen,
            }))
    }

    /// Deletes the table of a state of which it knows no more than this gen, and in which there is nothing.
    pub async fn forget(&self, key: &StateKey, mark: Mark) -> Result<(), Away> {
        let arguments = [mark.incarnation.to_string(), mark.known_gen.to_string()];
        let _: i64 = self
            .link
            .run(&self.scripts.forget, &key.tables(), &arguments)
            .await?;
        Ok(())
    }

    /// Takes a request out of the queue, or gives back its admission.
    pub async fn leave(&self, key: &StateKey, idem_key: &str) -> Result<(), Away> {
        let _: i64 = self
            .link
            .run(&self.scripts.leave, &key.tables(), &[idem_key.to_owned()])
            .await?;
        Ok(())
    }

    /// Everybody who waits for a part of a state, in the order in which they came.
    pub async fn waiting(&self, key: &StateKey) -> Result<Vec<crate::Waiter>, Away> {
        let flat: Vec<String> = self
            .link
            .run(&self.scripts.waiting, &key.tables(), &[])
            .await?;
        let mut waiters: Vec<crate::Waiter> = flat
            .chunks_exact(4)
            .filter_map(|waiter| {
                Some(crate::Waiter {
                    key: waiter[0].clone(),
                    first_seen_ms: waiter[1].parse().ok()?,
                    last_seen_ms: waiter[2].parse().ok()?,
                    about: waiter[3].clone(),
                })
            })
            .collect();
        waiters.sort_by_key(|waiter| waiter.first_seen_ms);
        Ok(waiters)
    }
}

fn read_admission(answer: &[String]) -> Option<Admission> {
    match answer {
        [word] if word == "REBUILD" => Some(Admission::Rebuild),
        [word, known_gen] if word == "ADMITTED" => Some(Admission::Admitted {
            known_gen: known_gen.parse().ok()?,
        }),
        [word, known_gen, first_seen, _, ahead, holders @ ..] if word == "WAIT" => {
            Some(Admission::Wait(Place {
                first_seen_ms: first_seen.parse().ok()?,
                ahead: ahead.parse().ok()?,
                holders: holders.to_vec(),
                known_gen: known_gen.parse().ok()?,
            }))
        }
        _ => None,
    }
}
