//! The scripts against a real Redis: what they admit, and that the table always becomes what the ledger holds.
//!
//! Needs `KL_TEST_REDIS_URL`; `cargo xtask test` provides it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use coordination::{
    Admission, Ask, Contention, Held, Index, Link, Loaded, Queueing, StateKey, Ticket, TicketKey,
    Wakes,
};
use graph::claims::{Access, Claim, ClaimSet, Nodes, Path};
use proptest::prelude::*;
use tokio::runtime::Runtime;
use uuid::Uuid;

const INCARNATION: i64 = 1;

fn url() -> String {
    std::env::var("KL_TEST_REDIS_URL").expect("KL_TEST_REDIS_URL names a Redis")
}

fn index() -> Index {
    Index::new(Link::new(&url()).expect("an address of Redis"))
}

/// A connection beside the index, to look at what it stored.
async fn connection() -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(url()).expect("an address of Redis");
    let connection = client.get_multiplexed_async_connection().await;
    connection.expect("Redis is there")
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime"))
}

fn new_state() -> StateKey {
    StateKey {
        workspace: "ws_0123456789ab".to_owned(),
        state: Uuid::now_v7(),
    }
}

fn claims(some: &[(&str, Access)]) -> Nodes {
    let claim = |(text, access): &(&str, Access)| Claim {
        path: text.parse::<Path>().expect("a path"),
        access: *access,
    };
    ClaimSet::new(some.iter().map(claim)).nodes()
}

fn write(text: &str) -> Nodes {
    claims(&[(text, Access::Write)])
}

fn held(r#gen: i64, nodes: Nodes) -> Held {
    Held {
        id: Uuid::now_v7(),
        granted_gen: r#gen,
        nodes,
        info: format!("holder {}", r#gen),
    }
}

async fn admit(index: &Index, key: &StateKey, idem_key: &str, nodes: &Nodes) -> Admission {
    let ask = Ask {
        key,
        incarnation: INCARNATION,
        idem_key,
        nodes,
        queue: Queueing::Native(None),
        about: "",
    };
    index.admit(&ask).await.expect("Redis is there")
}

fn is_admitted(admission: &Admission) -> bool {
    matches!(admission, Admission::Admitted { .. })
}

fn place(admission: Admission) -> coordination::Place {
    match admission {
        Admission::Wait(place) => place,
        other => panic!("not waiting: {other:?}"),
    }
}

#[test]
fn an_empty_index_asks_to_be_loaded_and_then_admits() {
    runtime().block_on(async {
        let (index, key) = (index(), new_state());
        let nodes = write("terraform_data.a");
        assert_eq!(admit(&index, &key, "k", &nodes).await, Admission::Rebuild);
        let loaded = index
            .load(&key, INCARNATION, 4, &[], Contention::Unknown)
            .await;
        assert_eq!(loaded, Ok(Loaded::Yes));
        let admitted = Admission::Admitted { known_gen: 4 };
        assert_eq!(admit(&index, &key, "k", &nodes).await, admitted);
        // The answer was lost; the same request comes again.
        assert_eq!(admit(&index, &key, "k", &nodes).await, admitted);
        let other = place(admit(&index, &key, "other", &nodes).await);
        assert_eq!(other.holders, [""]);
        assert!(other.is_behind_an_admission());
    });
}

#[test]
fn waiters_are_served_in_their_order_and_only_where_they_conflict() {
    runtime().block_on(async {
        let (index, key) = (index(), new_state());
        index
            .load(&key, INCARNATION, 0, &[], Contention::Unknown)
            .await
            .unwrap();
        let narrow = write("terraform_data.a");
        let whole = ClaimSet::whole_state().nodes();
        assert!(is_admitted(&admit(&index, &key, "first", &narrow).await));
        let first = held(1, narrow.clone());
        index
            .confirm(&key, INCARNATION, "first", &first)
            .await
            .unwrap();

        let waiting = place(admit(&index, &key, "whole", &whole).await);
        assert!(!waiting.is_behind_an_admission());
        assert_eq!(
            (waiting.ahead, waiting.holders),
            (0, vec!["holder 1".to_owned()])
        );
        // Compatible with what is held, but not with who waits longer.
        let overtaker = place(admit(&index, &key, "overtaker", &write("terraform_data.b")).await);
        assert_eq!((overtaker.ahead, overtaker.holders.len()), (1, 0));

        index.end(&key, INCARNATION, first.id, 2).await.unwrap();
        let still = place(admit(&index, &key, "overtaker", &write("terraform_data.b")).await);
        assert_eq!(still.ahead, 1);
        assert!(is_admitted(&admit(&index, &key, "whole", &whole).await));
        let keys: Vec<String> = index
            .waiting(&key)
            .await
            .unwrap()
            .into_iter()
            .map(|waiter| waiter.key)
            .collect();
        assert_eq!(keys, ["overtaker"]);
        index.leave(&key, "overtaker").await.unwrap();
        assert!(index.waiting(&key).await.unwrap().is_empty());
    });
}

#[test]
fn a_terraform_that_tries_once_holds_nobody_up() {
    runtime().block_on(async {
        let (index, key) = (index(), new_state());
        let holder = held(1, write("terraform_data.a"));
        index
            .load(&key, INCARNATION, 1, &[holder], Contention::Unknown)
            .await
            .unwrap();
        let whole = ClaimSet::whole_state().nodes();
        let terraform = Ask {
            key: &key,
            incarnation: INCARNATION,
            idem_key: "terraform",
            nodes: &whole,
            queue: Queueing::Terraform,
            about: "",
        };
        place(index.admit(&terraform).await.unwrap());
        tokio::time::sleep(std::time::Duration::from_millis(2_100)).await;
        assert!(is_admitted(
            &admit(&index, &key, "b", &write("terraform_data.b")).await
        ));
        place(index.admit(&terraform).await.unwrap());
        assert_eq!(
            place(admit(&index, &key, "c", &write("terraform_data.c")).await).ahead,
            1
        );
    });
}

#[test]
fn a_ticket_brings_its_old_place_back_after_a_loss() {
    runtime().block_on(async {
        let (index, key) = (index(), new_state());
        let signer = TicketKey::new([1; 32]);
        let holder = held(1, write("terraform_data.a"));
        index
            .load(
                &key,
                INCARNATION,
                1,
                std::slice::from_ref(&holder),
                Contention::Unknown,
            )
            .await
            .unwrap();
        let old = place(admit(&index, &key, "old", &write("terraform_data.a")).await);
        let ticket = signer.sign(
            &key,
            "old",
            Ticket {
                first_seen_ms: old.first_seen_ms,
            },
        );

        // Of two that came in the same millisecond either may be the first.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        flush(&key).await;
        assert_eq!(
            admit(&index, &key, "new", &write("terraform_data.a")).await,
            Admission::Rebuild
        );
        index
            .load(&key, INCARNATION, 1, &[holder], Contention::Unknown)
            .await
            .unwrap();
        let new = place(admit(&index, &key, "new", &write("terraform_data.a")).await);
        assert_eq!(new.ahead, 0);
        let ask = Ask {
            key: &key,
            incarnation: INCARNATION,
            idem_key: "old",
            nodes: &write("terraform_data.a"),
            queue: Queueing::Native(signer.verify(&key, "old", &ticket)),
            about: "",
        };
        assert_eq!(
            place(index.admit(&ask).await.unwrap()).first_seen_ms,
            old.first_seen_ms
        );
        let new = place(admit(&index, &key, "new", &write("terraform_data.a")).await);
        assert_eq!(new.ahead, 1);
    });
}

#[test]
fn after_a_loss_those_who_waited_are_served_in_the_order_in_which_they_came() {
    runtime().block_on(async {
        let (index, key) = (index(), new_state());
        let nodes = write("terraform_data.a");
        let holder = held(1, nodes.clone());
        index
            .load(&key, INCARNATION, 1, &[holder], Contention::Unknown)
            .await
            .unwrap();
        let names = ["first", "second", "third"];
        let mut tickets = Vec::new();
        for name in names {
            let first_seen_ms = place(admit(&index, &key, name, &nodes).await).first_seen_ms;
            tickets.push(Ticket { first_seen_ms });
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let again = async |waiter: usize| {
            let ask = Ask {
                key: &key,
                incarnation: INCARNATION,
                idem_key: names[waiter],
                nodes: &nodes,
                queue: Queueing::Native(Some(tickets[waiter])),
                about: "",
            };
            index.admit(&ask).await.unwrap()
        };
        // The holder ends, and the index is lost with all that it knew of either.
        flush(&key).await;
        index
            .load(&key, INCARNATION, 2, &[], Contention::Unknown)
            .await
            .unwrap();
        for waiter in [2, 1, 0] {
            assert!(place(again(waiter).await).is_settling());
        }
        assert!(
            place(admit(&index, &key, "new", &nodes).await)
                .holders
                .is_empty()
        );
        tokio::time::sleep(std::time::Duration::from_millis(2_100)).await;
        assert_eq!(place(admit(&index, &key, "new", &nodes).await).ahead, 3);
        assert_eq!(place(again(2).await).ahead, 2);
        assert_eq!(place(again(1).await).ahead, 1);
        assert!(is_admitted(&again(0).await));
    });
}

#[test]
fn a_table_is_forgotten_when_there_is_nothing_in_it() {
    runtime().block_on(async {
        let (index, key) = (index(), new_state());
        let nodes = write("terraform_data.a");
        assert_eq!(index.mark(&key).await, Ok(None));
        index
            .load(&key, INCARNATION, 4, &[], Contention::Unknown)
            .await
            .unwrap();
        let mark = index.mark(&key).await.unwrap().unwrap();
        assert_eq!((mark.incarnation, mark.known_gen), (INCARNATION, 4));
        assert!(is_admitted(&admit(&index, &key, "k", &nodes).await));
        index.forget(&key, mark).await.unwrap();
        assert_eq!(
            index.mark(&key).await,
            Ok(Some(mark)),
            "somebody is admitted"
        );
        index.leave(&key, "k").await.unwrap();
        let older = coordination::Mark {
            known_gen: 3,
            ..mark
        };
        index.forget(&key, older).await.unwrap();
        assert_eq!(index.mark(&key).await, Ok(Some(mark)), "it knows more");
        index.forget(&key, mark).await.unwrap();
        assert_eq!(index.mark(&key).await, Ok(None));
    });
}

/// Deletes what a state has in Redis, as a flush would.
async fn flush(key: &StateKey) {
    let mut connection = connection().await;
    for table in ["meta", "res", "node", "gap", "wait"] {
        let mut delete = redis::cmd("DEL");
        delete.arg(format!("{key}:{table}"));
        let _: i64 = delete.query_async(&mut connection).await.expect("deleted");
    }
}

#[test]
fn ends_wake_those_who_listen() {
    runtime().block_on(async {
        let (index, key) = (index(), new_state());
        let wakes = Wakes::default();
        let listening = wakes.clone();
        let link = index.link().clone();
        let task = tokio::spawn(async move { listening.listen_to(&link).await });
        let patience = std::time::Duration::from_secs(20);
        let mut wake = wakes.listen(&key);
        // The connection being made is a wake-up, too.
        wake.wait(patience).await;
        index
            .end(&key, INCARNATION, Uuid::now_v7(), 2)
            .await
            .unwrap();
        let started = std::time::Instant::now();
        wake.wait(patience).await;
        assert!(started.elapsed() < patience, "nobody was woken");
        task.abort();
    });
}

#[test]
fn a_server_that_may_drop_keys_is_not_used() {
    runtime().block_on(async {
        let index = index();
        assert_eq!(index.link().check_policy().await.unwrap(), "noeviction");
        assert!(index.link().is_usable());
    });
}

#[test]
fn without_redis_the_answer_comes_at_once() {
    runtime().block_on(async {
        let index = Index::new(Link::new("redis://127.0.0.1:1").unwrap());
        let (key, nodes) = (new_state(), write("terraform_data.a"));
        let ask = |queue| Ask {
            key: &key,
            incarnation: 1,
            idem_key: "k",
            nodes: &nodes,
            queue,
            about: "",
        };
        assert!(index.admit(&ask(Queueing::Terraform)).await.is_err());
        assert!(!index.link().is_usable());
    });
}

/// A change of the ledger, as its calls to the index tell it.
#[derive(Debug, Clone)]
enum Step {
    Grant(usize),
    Widen(usize),
    End(usize),
    /// A snapshot of the ledger at some earlier moment arrives.
    Load(i64),
}

fn steps(count: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..count).prop_map(Step::Grant),
        (0..count).prop_map(Step::Widen),
        (0..count).prop_map(Step::End),
        (0..=3 * count as i64).prop_map(Step::Load),
    ];
    // Some of everything, more than once and in any order.
    prop::collection::vec(step, 0..40)
}

/// One reservation's life in the ledger. Its gens are three in a row: what does not happen leaves its gen to nobody.
#[derive(Debug, Clone)]
struct Life {
    id: Uuid,
    granted_gen: i64,
    nodes: Nodes,
    widened: Option<Nodes>,
    ended: bool,
}

impl Life {
    /// What the ledger has of it at this gen.
    fn at(&self, r#gen: i64) -> Option<Held> {
        let is_held = self.granted_gen <= r#gen && !(self.ended && self.granted_gen + 2 <= r#gen);
        let widened = self.widened.as_ref().filter(|_| self.granted_gen < r#gen);
        is_held.then(|| Held {
            id: self.id,
            granted_gen: self.granted_gen,
            nodes: widened.unwrap_or(&self.nodes).clone(),
            info: String::new(),
        })
    }

    fn widening(&self) -> Option<Held> {
        let nodes = self.widened.clone()?;
        Some(Held {
            id: self.id,
            granted_gen: self.granted_gen + 1,
            nodes,
            info: String::new(),
        })
    }
}

fn any_claims() -> impl Strategy<Value = Nodes> {
    let path = prop::sample::select(vec![
        "module.m",
        "module.m.terraform_data.a",
        "module.m.terraform_data.b",
        "module.m.module.n.terraform_data.a",
        "terraform_data.a",
        "terraform_data.a[0]",
        "terraform_data.a[1]",
        "terraform_data.b",
        "output.o",
    ]);
    let access = prop::sample::select(vec![Access::Read, Access::Write]);
    prop::collection::vec((path, access), 1..4).prop_map(|some| claims(&some))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lua_and_rust_agree_on_what_conflicts(one in any_claims(), other in any_claims()) {
        runtime().block_on(async {
            let (index, key) = (index(), new_state());
            index.load(&key, INCARNATION, 1, &[held(1, one.clone())], Contention::Unknown).await.unwrap();
            let answer = admit(&index, &key, "k", &other).await;
            let expected = one.conflict(&other);
            // Whoever is compatible waits at most for the settling after a load.
            let blocked = matches!(&answer, Admission::Wait(place) if !place.holders.is_empty());
            prop_assert_eq!(blocked, expected, "{:?}", answer);
            Ok(())
        })?;
    }

    /// The grants, widenings and ends of a ledger, told in any order and any number of times, with loads in between, and in
    /// the end all of them: the table is what the ledger holds.
    #[test]
    fn any_order_and_repetition_ends_equal_to_the_ledger(
        lives in prop::collection::vec((any_claims(), prop::option::of(any_claims()), any::<bool>()), 1..6),
        told in steps(6),
        probe in any_claims(),
    ) {
        runtime().block_on(async {
            let (index, key) = (index(), new_state());
            let lives: Vec<Life> = lives.into_iter().zip(0..).map(|((nodes, widened, ended), place)| Life {
                id: Uuid::now_v7(),
                granted_gen: 3 * place + 1,
                nodes,
                widened,
                ended,
            }).collect();
            let held_at = |r#gen| -> Vec<Held> { lives.iter().filter_map(|life| life.at(r#gen)).collect() };
            let last = 3 * lives.len() as i64;
            index.load(&key, INCARNATION, 0, &[], Contention::Unknown).await.unwrap();
            let mut everything = told;
            everything.extend((0..lives.len()).flat_map(|place| {
                [Step::Grant(place), Step::Widen(place), Step::End(place)]
            }));
            for step in everything {
                match step {
                    Step::Grant(place) => {
                        let Some(life) = lives.get(place) else { continue };
                        let held = life.at(life.granted_gen).unwrap();
                        index.confirm(&key, INCARNATION, &place.to_string(), &held).await.unwrap();
                    }
                    Step::Widen(place) => {
                        let Some(held) = lives.get(place).and_then(Life::widening) else { continue };
                        index.confirm(&key, INCARNATION, &place.to_string(), &held).await.unwrap();
                    }
                    Step::End(place) => {
                        let Some(life) = lives.get(place).filter(|life| life.ended) else { continue };
                        index.end(&key, INCARNATION, life.id, life.granted_gen + 2).await.unwrap();
                    }
                    Step::Load(r#gen) if r#gen <= last => {
                        index.load(&key, INCARNATION, r#gen, &held_at(r#gen), Contention::Unknown).await.unwrap();
                    }
                    Step::Load(_) => {}
                }
            }
            prop_assert_eq!(stored_table(&key).await, table(&held_at(last)));
            let blocked = held_at(last).iter().any(|held| held.nodes.conflict(&probe));
            let answer = admit(&index, &key, "probe", &probe).await;
            prop_assert_eq!(!is_admitted(&answer), blocked);
            Ok(())
        })?;
    }
}

/// The counts of all nodes of these reservations.
fn table(held: &[Held]) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::new();
    for node in held.iter().flat_map(|held| held.nodes.iter()) {
        *counts
            .entry(format!("{}:{}", node.hash, node.mode as u8))
            .or_insert(0) += 1;
    }
    counts
}

async fn stored_table(key: &StateKey) -> BTreeMap<String, i64> {
    let mut connection = connection().await;
    let mut read = redis::cmd("HGETALL");
    read.arg(format!("{key}:node"));
    read.query_async(&mut connection).await.expect("read")
}
