//! The state of the model, what may happen in it, and what must always hold.

use stateright::{Model, Property};

pub(crate) const EXCLUSION: &str = "I1: no two active reservations conflict";
pub(crate) const KNOWN_GRANTS: &str = "I2: what a client was told of is in the ledger, once";
pub(crate) const RISING_TOKENS: &str = "I3: tokens rise in the order of grants";
pub(crate) const NO_LOST_UPDATE: &str = "I4: every written address was at the base its writer saw";
pub(crate) const FENCING: &str = "nothing is written under a reservation that has ended";
pub(crate) const ONE_DOCUMENT_A_SEQ: &str = "I6: no seq names two documents";
pub(crate) const ONE_VERSION_A_KEY: &str = "I7: one commit key makes one version at most";
pub(crate) const NOTHING_THROWN_AWAY: &str = "I8: what was refused is kept";
pub(crate) const MARKED: &str = "I8: what ended unreleased left its marks";

const CLIENTS: usize = 3;
const ADDRESSES: usize = 3;
/// The addresses that each client writes: the first two clients share one.
const SCOPES: [&[usize]; CLIENTS] = [&[0], &[0, 1], &[2]];
/// How far tokens and seqs leap when a database is restored: further than a run of the model gets.
const LEAP: u8 = 50;

/// The rules of the protocol; each can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rules {
    /// A grant is checked against the ledger, whatever the index says.
    pub(crate) ledger_check: bool,
    /// A commit names a reservation that is still active.
    pub(crate) liveness: bool,
    /// What a commit writes is still at the base of its reservation.
    pub(crate) version_check: bool,
    /// A commit that was done is not done again.
    pub(crate) receipts: bool,
    /// A refused body is stored first.
    pub(crate) kept_results: bool,
    /// A reservation that ends without its holder's release marks what it may have touched.
    pub(crate) marks: bool,
    /// A grant that was made is found by its key.
    pub(crate) known_keys: bool,
    /// After a restore tokens go on above all that were ever drawn.
    pub(crate) tokens_leap: bool,
    /// The same for seqs.
    pub(crate) seqs_leap: bool,
}

impl Rules {
    pub(crate) const ALL: Self = Self {
        ledger_check: true,
        liveness: true,
        version_check: true,
        receipts: true,
        kept_results: true,
        marks: true,
        known_keys: true,
        tokens_leap: true,
        seqs_leap: true,
    };
}

/// How often what may go wrong goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Bounds {
    pub(crate) lost_answers: u8,
    /// Reservations that are expired or broken.
    pub(crate) ended: u8,
    /// Flushes, roll-backs and late loads.
    pub(crate) redis_faults: u8,
    pub(crate) restores: u8,
}

pub(crate) struct Protocol {
    pub(crate) rules: Rules,
    pub(crate) bounds: Bounds,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// The index let the request through.
    Admitted,
    Held,
    /// Real infrastructure has changed.
    Worked,
    Committed,
    /// The upload was refused for good, in this incarnation.
    Refused(u8),
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Client {
    phase: Phase,
    /// What it was told: token and incarnation.
    told: Option<(u8, u8)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Status {
    Active,
    Released,
    Ended,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Reservation {
    client: usize,
    token: u8,
    incarnation: u8,
    status: Status,
    bases: [u8; ADDRESSES],
}

/// What Postgres holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Ledger {
    token: u8,
    incarnation: u8,
    seq: u8,
    /// The version that last wrote each address.
    addresses: [u8; ADDRESSES],
    reservations: Vec<Reservation>,
    /// Clients whose commit was done.
    receipts: [bool; CLIENTS],
    kept: [bool; CLIENTS],
    marked: [bool; CLIENTS],
}

/// What an observer of everything remembers. Only what the invariants ask for: each bit more doubles the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Observed {
    highest_token: u8,
    token_fell: bool,
    highest_seq: u8,
    seq_repeated: bool,
    versions: [u8; CLIENTS],
    wrote_without_base: bool,
    wrote_after_end: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    ledger: Ledger,
    /// Whose claims the index counts.
    index: [bool; CLIENTS],
    /// An older copy of the index.
    older_index: Option<[bool; CLIENTS]>,
    /// What the ledger held when a load began.
    loading: Option<[bool; CLIENTS]>,
    /// A standby that lags behind.
    older_ledger: Option<Ledger>,
    clients: [Client; CLIENTS],
    left: Bounds,
    observed: Observed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    Ask(usize),
    Grant { client: usize, answer_lost: bool },
    Confirm(usize),
    Work(usize),
    Commit { client: usize, answer_lost: bool },
    Release(usize),
    TellEnd(usize),
    ExpireOrBreak(usize),
    FlushIndex,
    CopyIndex,
    RollIndexBack,
    BeginLoad,
    FinishLoad,
    CopyLedger,
    RestoreLedger,
}

fn conflict(one: usize, other: usize) -> bool {
    one != other
        && SCOPES[one]
            .iter()
            .any(|address| SCOPES[other].contains(address))
}

impl Ledger {
    fn active(&self, client: usize) -> bool {
        self.reservations
            .iter()
            .any(|held| held.client == client && held.status == Status::Active)
    }

    fn all_active(&self) -> [bool; CLIENTS] {
        std::array::from_fn(|client| self.active(client))
    }

    fn end(&mut self, client: usize, status: Status, marks: bool) {
        for held in &mut self.reservations {
            if held.client == client && held.status == Status::Active {
                held.status = status;
                self.marked[client] |= marks && status == Status::Ended;
            }
        }
    }
}

impl World {
    fn ask(&mut self, client: usize) {
        let blocked = (0..CLIENTS).any(|other| self.index[other] && conflict(client, other));
        if !blocked {
            self.clients[client].phase = Phase::Admitted;
        }
    }

    /// The ledger transaction of a grant.
    fn grant(&mut self, client: usize, answer_lost: bool, rules: Rules) {
        let known = self
            .ledger
            .reservations
            .iter()
            .rfind(|held| held.client == client)
            .cloned();
        let told = match known.filter(|_| rules.known_keys) {
            Some(held) if held.status == Status::Active => (held.token, held.incarnation),
            // The key has ended: it never comes to life again.
            Some(_) => {
                self.clients[client].phase = Phase::Done;
                return;
            }
            None => {
                let conflicts =
                    (0..CLIENTS).any(|other| conflict(client, other) && self.ledger.active(other));
                if rules.ledger_check && conflicts {
                    self.index = self.ledger.all_active();
                    self.clients[client].phase = Phase::Idle;
                    return;
                }
                self.ledger.token += 1;
                self.ledger.reservations.push(Reservation {
                    client,
                    token: self.ledger.token,
                    incarnation: self.ledger.incarnation,
                    status: Status::Active,
                    bases: self.ledger.addresses,
                });
                let observed = &mut self.observed;
                observed.token_fell |= self.ledger.token <= observed.highest_token;
                observed.highest_token = observed.highest_token.max(self.ledger.token);
                (self.ledger.token, self.ledger.incarnation)
            }
        };
        if !answer_lost {
            self.clients[client] = Client {
                phase: Phase::Held,
                told: Some(told),
            };
        }
    }

    /// The transaction of a commit.
    fn commit(&mut self, client: usize, answer_lost: bool, rules: Rules) {
        let answer = if rules.receipts && self.ledger.receipts[client] {
            Phase::Committed
        } else {
            self.write(client, rules)
        };
        if !answer_lost {
            self.clients[client].phase = answer;
        }
    }

    fn write(&mut self, client: usize, rules: Rules) -> Phase {
        let told = self.clients[client].told;
        let held =
            self.ledger.reservations.iter().position(|held| {
                held.client == client && told == Some((held.token, held.incarnation))
            });
        let was_active =
            held.is_some_and(|place| self.ledger.reservations[place].status == Status::Active);
        let bases = held.map_or([0; ADDRESSES], |place| {
            self.ledger.reservations[place].bases
        });
        let had_base = SCOPES[client]
            .iter()
            .all(|address| bases[*address] == self.ledger.addresses[*address]);
        if (rules.liveness && !was_active) || (rules.version_check && !had_base) {
            self.ledger.kept[client] |= rules.kept_results;
            return Phase::Refused(self.ledger.incarnation);
        }
        self.ledger.seq += 1;
        let seq = self.ledger.seq;
        for address in SCOPES[client] {
            self.ledger.addresses[*address] = seq;
            if let Some(place) = held {
                self.ledger.reservations[place].bases[*address] = seq;
            }
        }
        self.ledger.receipts[client] = true;
        let observed = &mut self.observed;
        observed.seq_repeated |= seq <= observed.highest_seq;
        observed.highest_seq = observed.highest_seq.max(seq);
        observed.versions[client] += 1;
        observed.wrote_without_base |= !had_base;
        observed.wrote_after_end |= !was_active;
        Phase::Committed
    }

    /// The older copy becomes the database, and an operator finishes the restore.
    fn restore(&mut self, older: Ledger, rules: Rules) {
        self.ledger = older;
        self.ledger.incarnation += 1;
        if rules.tokens_leap {
            self.ledger.token += LEAP;
        }
        if rules.seqs_leap {
            self.ledger.seq += LEAP;
        }
        for client in 0..CLIENTS {
            self.ledger.end(client, Status::Ended, rules.marks);
        }
    }

    /// What a client was told of is there, unless the database has been restored since.
    fn grants_are_known(&self) -> bool {
        let known = |client: usize| {
            let Some((token, incarnation)) = self.clients[client].told else {
                return true;
            };
            incarnation < self.ledger.incarnation
                || self
                    .ledger
                    .reservations
                    .iter()
                    .any(|held| held.client == client && held.token == token)
        };
        let once = |client| {
            let of_client =
                |held: &&Reservation| held.client == client && held.status == Status::Active;
            self.ledger.reservations.iter().filter(of_client).count() <= 1
        };
        (0..CLIENTS).all(|client| known(client) && once(client))
    }

    fn refused_is_kept(&self) -> bool {
        (0..CLIENTS).all(|client| match self.clients[client].phase {
            Phase::Refused(incarnation) => {
                self.ledger.kept[client] || incarnation < self.ledger.incarnation
            }
            _ => true,
        })
    }

    fn ended_is_marked(&self) -> bool {
        let ended = |held: &&Reservation| held.status == Status::Ended;
        self.ledger
            .reservations
            .iter()
            .filter(ended)
            .all(|held| self.ledger.marked[held.client])
    }

    fn excludes(&self) -> bool {
        let active = self.ledger.all_active();
        (0..CLIENTS).all(|one| {
            (0..CLIENTS).all(|other| !(active[one] && active[other] && conflict(one, other)))
        })
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        let client = Client {
            phase: Phase::Idle,
            told: None,
        };
        vec![World {
            ledger: Ledger::default(),
            index: [false; CLIENTS],
            older_index: None,
            loading: None,
            older_ledger: None,
            clients: [client; CLIENTS],
            left: self.bounds,
            observed: Observed::default(),
        }]
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        let may_lose: &[bool] = if world.left.lost_answers > 0 {
            &[false, true]
        } else {
            &[false]
        };
        for (client, Client { phase, .. }) in world.clients.iter().enumerate() {
            match phase {
                Phase::Idle => events.push(Event::Ask(client)),
                Phase::Admitted => events.extend(may_lose.iter().map(|lost| Event::Grant {
                    client,
                    answer_lost: *lost,
                })),
                Phase::Held => events.push(Event::Work(client)),
                Phase::Worked => events.extend(may_lose.iter().map(|lost| Event::Commit {
                    client,
                    answer_lost: *lost,
                })),
                Phase::Committed => events.push(Event::Release(client)),
                Phase::Refused(_) | Phase::Done => {}
            }
            let active = world.ledger.active(client);
            if active && !world.index[client] {
                events.push(Event::Confirm(client));
            }
            if !active && world.index[client] {
                events.push(Event::TellEnd(client));
            }
            if active && world.left.ended > 0 {
                events.push(Event::ExpireOrBreak(client));
            }
        }
        if world.left.redis_faults > 0 {
            events.push(Event::FlushIndex);
            events.push(if world.older_index.is_some() {
                Event::RollIndexBack
            } else {
                Event::CopyIndex
            });
            events.push(if world.loading.is_some() {
                Event::FinishLoad
            } else {
                Event::BeginLoad
            });
        }
        if world.left.restores > 0 {
            events.push(if world.older_ledger.is_some() {
                Event::RestoreLedger
            } else {
                Event::CopyLedger
            });
        }
    }

    fn next_state(&self, last: &World, event: Event) -> Option<World> {
        let mut world = last.clone();
        match event {
            Event::Ask(client) => world.ask(client),
            Event::Grant {
                client,
                answer_lost,
            } => {
                world.left.lost_answers -= u8::from(answer_lost);
                world.grant(client, answer_lost, self.rules);
            }
            Event::Confirm(client) => world.index[client] = true,
            Event::Work(client) => world.clients[client].phase = Phase::Worked,
            Event::Commit {
                client,
                answer_lost,
            } => {
                world.left.lost_answers -= u8::from(answer_lost);
                world.commit(client, answer_lost, self.rules);
            }
            Event::Release(client) => {
                world.ledger.end(client, Status::Released, self.rules.marks);
                world.clients[client].phase = Phase::Done;
            }
            Event::TellEnd(client) => world.index[client] = false,
            Event::ExpireOrBreak(client) => {
                world.left.ended -= 1;
                world.ledger.end(client, Status::Ended, self.rules.marks);
            }
            Event::FlushIndex => {
                world.left.redis_faults -= 1;
                world.index = [false; CLIENTS];
            }
            Event::CopyIndex => world.older_index = Some(world.index),
            Event::RollIndexBack => {
                world.left.redis_faults -= 1;
                world.index = world.older_index.take()?;
            }
            Event::BeginLoad => world.loading = Some(world.ledger.all_active()),
            Event::FinishLoad => {
                world.left.redis_faults -= 1;
                world.index = world.loading.take()?;
            }
            Event::CopyLedger => world.older_ledger = Some(world.ledger.clone()),
            Event::RestoreLedger => {
                world.left.restores -= 1;
                let older = world.older_ledger.take()?;
                world.restore(older, self.rules);
            }
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSION, |_, world: &World| world.excludes()),
            Property::always(KNOWN_GRANTS, |_, world: &World| world.grants_are_known()),
            Property::always(RISING_TOKENS, |_, world: &World| !world.observed.token_fell),
            Property::always(NO_LOST_UPDATE, |_, world: &World| {
                !world.observed.wrote_without_base
            }),
            Property::always(FENCING, |_, world: &World| !world.observed.wrote_after_end),
            Property::always(ONE_DOCUMENT_A_SEQ, |_, world: &World| {
                !world.observed.seq_repeated
            }),
            Property::always(ONE_VERSION_A_KEY, |_, world: &World| {
                world
                    .observed
                    .versions
                    .iter()
                    .all(|versions| *versions <= 1)
            }),
            Property::always(NOTHING_THROWN_AWAY, |_, world: &World| {
                world.refused_is_kept()
            }),
            Property::always(MARKED, |_, world: &World| world.ended_is_marked()),
        ]
    }
}
