//! The clients: each does what real ones do, over and over, and writes down what it did and was told.

mod clock;
mod fenced;
mod native;
mod primitive;
mod queuer;
mod reader;
mod run;
mod terraform;
mod waiting;
mod wanted;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::document::{Cell, Document};
use crate::history::{Answer, Call, Event, Log, Write};
use crate::plan::{ClientPlan, Plan, Role, StatePlan, Times};
use crate::wire::{Reply, Request, Said, Who, Wire};

/// What all clients of a run share.
pub struct World {
    pub wire: Wire,
    pub log: Log,
    pub times: Times,
    pub states: Vec<StatePlan>,
}

/// What clients are told from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Work,
    /// Bring to an end what is begun, and begin nothing.
    Rest,
}

/// Running clients.
pub struct Clients {
    tasks: JoinSet<()>,
    signal: watch::Sender<Signal>,
}

impl Clients {
    /// Sets all clients of a plan to work.
    #[must_use]
    pub fn start(world: &Arc<World>, plan: &Plan) -> Self {
        Self::start_those(world, plan, |_| true)
    }

    /// Sets some of them to work.
    #[must_use]
    pub fn start_those(
        world: &Arc<World>,
        plan: &Plan,
        chosen: impl Fn(&ClientPlan) -> bool,
    ) -> Self {
        let (signal, heard) = watch::channel(Signal::Work);
        let mut tasks = JoinSet::new();
        for (number, client) in plan.clients.iter().enumerate() {
            if chosen(client) {
                let actor = Actor::new(world, client, number, heard.clone());
                tasks.spawn(actor.work());
            }
        }
        Self { tasks, signal }
    }

    /// Tells everybody to come to an end, and waits for it. Answers how many did not within the bound.
    pub async fn rest(mut self, within: Duration) -> usize {
        self.signal.send_replace(Signal::Rest);
        let all_done = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(within, all_done).await;
        self.tasks.len()
    }
}

/// One client.
pub(crate) struct Actor {
    world: Arc<World>,
    plan: ClientPlan,
    number: usize,
    rng: StdRng,
    written: u64,
    named: u64,
    /// What it asked to write in the run that it has now.
    claimed: BTreeSet<String>,
    signal: watch::Receiver<Signal>,
}

/// What came of an operation.
pub(crate) enum Outcome {
    Done(Reply, Box<Answer>),
    Refused(Reply),
    Unknown,
}

impl Outcome {
    fn done(self) -> Option<(Reply, Answer)> {
        match self {
            Self::Done(reply, answer) => Some((reply, *answer)),
            Self::Refused(_) | Self::Unknown => None,
        }
    }
}

impl Actor {
    fn new(
        world: &Arc<World>,
        plan: &ClientPlan,
        number: usize,
        signal: watch::Receiver<Signal>,
    ) -> Self {
        Self {
            world: world.clone(),
            plan: plan.clone(),
            number,
            rng: StdRng::seed_from_u64(plan.seed),
            written: 0,
            named: 0,
            claimed: BTreeSet::new(),
            signal,
        }
    }

    async fn work(mut self) {
        while self.may_begin() {
            match self.plan.role {
                Role::Native => self.native_turn().await,
                Role::Primitive => self.primitive_turn().await,
                Role::Terraform => self.terraform_turn().await,
                Role::Late => self.fenced_turn().await,
                Role::Queuer => self.queuer_turn().await,
                Role::Reader => self.reader_turn().await,
            }
        }
    }

    fn may_begin(&self) -> bool {
        *self.signal.borrow() == Signal::Work
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    fn pick_state(&mut self) -> StatePlan {
        let at = self.rng.random_range(0..self.plan.states.len());
        self.world.states[self.plan.states[at]].clone()
    }

    /// A name that nobody else gives: for keys, lock IDs.
    fn name_anew(&mut self, what: &str) -> String {
        self.named += 1;
        // The log's clock tells the runs of one database apart.
        format!(
            "{what}-{}-{}-{:x}",
            self.plan.name, self.named, self.plan.seed
        )
    }

    /// A value that nobody else writes, over what the document has at the address.
    fn write_to(&mut self, document: &mut Document, address: &str) -> Write {
        self.written += 1;
        let value = format!("{}.{}", self.plan.name, self.written);
        let before = document
            .cells
            .get(address)
            .map(|cell| cell.value.clone())
            .unwrap_or_default();
        let cell = Cell {
            value: value.clone(),
            before: before.clone(),
        };
        document.cells.insert(address.to_owned(), cell);
        Write {
            address: address.to_owned(),
            value,
            before,
        }
    }

    fn state_path(&self, state: &str, rest: &str) -> String {
        format!("/v1/states/{}/{state}{rest}", self.world.wire.place)
    }

    fn full_name(&self, state: &str) -> String {
        format!("{}/{state}", self.world.wire.place)
    }

    async fn pause(&mut self, most_ms: u64) {
        let pause = Duration::from_millis(self.rng.random_range(0..=most_ms));
        tokio::time::sleep(pause).await;
    }

    /// Does an operation and writes it down; `note` reads what a good answer says.
    async fn ask(
        &mut self,
        call: Call,
        request: &Request,
        note: impl Fn(&Reply, &mut Answer),
    ) -> Outcome {
        let op = self.world.log.invoke(&self.plan.name, call);
        let said = self.world.wire.repeat(self.number, request).await;
        self.conclude(op, said, note)
    }

    fn conclude(&self, op: u64, said: Said, note: impl Fn(&Reply, &mut Answer)) -> Outcome {
        let mut answer = Answer {
            tries: said.tries,
            troubles: said.troubles,
            detail: said.trouble,
            ..Answer::default()
        };
        let Some(reply) = said.reply else {
            self.world.log.note(Event::Unknown { op, answer });
            return Outcome::Unknown;
        };
        answer.status = reply.status;
        if reply.is_ok() {
            note(&reply, &mut answer);
            let event = Event::Ok {
                op,
                answer: answer.clone(),
            };
            self.world.log.note(event);
            return Outcome::Done(reply, Box::new(answer));
        }
        describe_refusal(&reply, &mut answer);
        self.world.log.note(Event::Fail { op, answer });
        Outcome::Refused(reply)
    }

    /// Reads a whole state.
    async fn read(&mut self, state: &str) -> Option<Document> {
        let request = Request::new("GET", self.state_path(state, ""), Who::Writer);
        let call = Call::Read {
            state: state.to_owned(),
        };
        let (reply, _) = self.ask(call, &request, note_document).await.done()?;
        Document::read(&reply.body).ok()
    }
}

/// What a refusal says.
pub(crate) fn describe_refusal(reply: &Reply, answer: &mut Answer) {
    let problem = reply.json();
    answer.status = reply.status;
    answer.code = reply.code();
    answer.kept = problem["kept"].as_bool().unwrap_or_default();
    let conflicts = problem["conflicts"].as_array().into_iter().flatten();
    answer.conflicts = conflicts
        .filter_map(|conflict| conflict["run"].as_str().map(str::to_owned))
        .collect();
    let detail = problem["detail"].as_str().unwrap_or_default();
    answer.detail = detail.chars().take(160).collect();
}

/// Notes what a document says.
pub(crate) fn note_document(reply: &Reply, answer: &mut Answer) {
    answer.sha256 = Some(sha256(&reply.body));
    if let Ok(document) = Document::read(&reply.body) {
        answer.values = document.values();
        answer.serial = Some(document.serial);
    }
}

pub(crate) fn nothing(_: &Reply, _: &mut Answer) {}

/// In hex.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
