//! Watching a state and a run: what is sent, when, to whom, and how it ends.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use protocol::events::{ByeReason, Event};
use protocol::runs::RunStatus;
use protocol::{Code, Role};
use store::testing::Wire;

use crate::harness::Setup;
use crate::lane::documents::Doc;
use crate::lane::stage::{Client, Reply, Stage};
use crate::runs::stage::{Native, alone, with_state};

/// Longer than anything here takes, so that what does not come is missed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A stream that somebody reads.
struct Stream {
    bytes: futures::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    text: String,
    /// The id of the last event that had one.
    last_id: Option<String>,
    /// What came, for whoever misses something.
    came: Vec<String>,
}

impl Stream {
    async fn open(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        Self {
            bytes: response.bytes_stream().boxed(),
            text: String::new(),
            last_id: None,
            came: Vec::new(),
        }
    }

    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        let Ok(next) = tokio::time::timeout(PATIENCE, self.read()).await else {
            panic!("nothing comes any more after {:#?}", self.came);
        };
        self.came.extend(next.as_ref().map(told));
        next
    }

    async fn read(&mut self) -> Option<Event> {
        loop {
            while let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                let field = |name: &str| {
                    let mut lines = block.lines();
                    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                };
                if let Some(id) = field("id") {
                    self.last_id = Some(id.trim().to_owned());
                }
                if let Some(name) = field("event") {
                    let event = Event::read(name.trim(), field("data").unwrap()).unwrap();
                    return Some(event.expect("a known event"));
                }
            }
            let bytes = self.bytes.next().await?.ok()?;
            self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    /// Passes events over until one is what is looked for.
    async fn until<T>(&mut self, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
        loop {
            let event = self.next().await.expect("the stream goes on");
            if let Some(found) = wanted(&event) {
                return found;
            }
        }
    }

    async fn version(&mut self) -> i64 {
        let seq = |event: &Event| match event {
            Event::Version(version) => Some(version.seq),
            _ => None,
        };
        self.until(seq).await
    }

    /// Waits until so many hold and so many wait.
    async fn standing(&mut self, holders: u32, waiting: u32) {
        let is_it = |event: &Event| match event {
            Event::Standing(one) => {
                (one.holder_count == holders && one.waiting_count == waiting).then_some(())
            }
            _ => None,
        };
        self.until(is_it).await;
    }

    async fn run(&mut self) -> (protocol::RunId, RunStatus) {
        let run = |event: &Event| match event {
            Event::Run(run) => Some((run.id, run.status)),
            _ => None,
        };
        self.until(run).await
    }

    async fn bye(&mut self) -> ByeReason {
        let reason = |event: &Event| match event {
            Event::Bye(bye) => Some(bye.reason),
            _ => None,
        };
        self.until(reason).await
    }
}

/// An event in short.
fn told(event: &Event) -> String {
    match event {
        Event::Standing(one) => format!("{} hold, {} wait", one.holder_count, one.waiting_count),
        Event::Version(version) => format!("version {}", version.seq),
        Event::Run(run) => format!("{} {:?}", run.id, run.status),
        other => format!("{other:?}"),
    }
}

impl Client<'_> {
    async fn watch(&self, name: &str) -> Stream {
        Stream::open(self.request("GET", &format!("{name}/events"))).await
    }

    async fn watch_after(&self, name: &str, id: &str) -> Stream {
        let request = self.request("GET", &format!("{name}/events"));
        Stream::open(request.header("last-event-id", id)).await
    }

    fn run_events(&self, run: &Native<'_>) -> reqwest::RequestBuilder {
        let app = &self.stage.app;
        app.request_to(self.replica, "GET", &run.path("/events"))
            .bearer_auth(&self.token)
    }
}

fn pair() -> Setup {
    Setup {
        replicas: 2,
        ..Setup::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_sees_versions_holders_waiters_and_runs_of_another_replica() {
    let stage = Stage::start_with(pair()).await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    with_state(&ann, "prod", &["a", "b"]).await;
    let viewer = stage.client(Role::Viewer).await.on(1);
    let mut events = viewer.watch("prod").await;
    events.standing(0, 0).await;

    let began = Instant::now();
    let run = ann.apply("prod", alone(&["a"])).await;
    assert_eq!(events.run().await, (run.run.id, RunStatus::Running));
    events.standing(1, 0).await;
    let (waited, ()) = tokio::join!(
        bob.ask_with(
            "prod",
            serde_json::json!({ "scope": alone(&["a"]), "wait_seconds": 20 })
        ),
        async {
            events.standing(1, 1).await;
            run.set("a", "one").await;
        }
    );
    assert_eq!(events.version().await, 2);
    let heir = Native::of(&bob, waited);
    events.standing(1, 0).await;
    heir.finish("failed").await.ok();
    loop {
        if events.run().await == (heir.run.id, RunStatus::Failed) {
            break;
        }
    }
    events.standing(0, 0).await;
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_back_is_sent_the_versions_since() {
    let stage = Stage::start_with(pair()).await;
    let ann = stage.writer().await;
    let write = async |serial: u64| {
        let value = format!("v{serial}");
        let document = Doc::new(serial).without_resources().with("a", &value);
        ann.write_locked("prod", document.bytes()).await;
    };
    write(1).await;
    let mut events = ann.watch("prod").await;
    events.standing(0, 0).await;
    write(2).await;
    assert_eq!(events.version().await, 2);
    let last = events.last_id.clone().unwrap();
    assert_eq!(last, "2");
    drop(events);
    for serial in 3..=5 {
        write(serial).await;
    }
    let mut events = ann.watch_after("prod", &last).await;
    for seq in 3..=5 {
        assert_eq!(events.version().await, seq);
    }
    // One who was away for long is told what it has to look up.
    for serial in 6..=60 {
        write(serial).await;
    }
    // Asked of the replica that has not looked at this state yet: the other may have seen all of them as they came.
    let mut events = ann.on(1).watch_after("prod", "3").await;
    let missed = |event: &Event| match event {
        Event::Missed(missed) => Some((missed.from_seq, missed.to_seq)),
        _ => None,
    };
    assert_eq!(events.until(missed).await, (4, 10));
    for seq in 11..=60 {
        assert_eq!(events.version().await, seq);
    }
    // A number that no version has yet: as if it were the newest.
    let mut events = ann.watch_after("prod", "99999").await;
    events.standing(0, 0).await;
    let refused = ann
        .request("GET", "prod/events")
        .header("last-event-id", "x");
    Reply::of(refused).await.refused(Code::InvalidRequest);
    ann.read("none/events").await.refused(Code::StateNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_watched_to_its_end() {
    let stage = Stage::start_with(pair()).await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a", "b"]).await;
    let run = ann.apply("prod", alone(&["a"])).await;
    let other = ann.apply("prod", alone(&["b"])).await;
    let mut events = Stream::open(ann.on(1).run_events(&run)).await;
    assert_eq!(events.run().await, (run.run.id, RunStatus::Running));
    other.finish("succeeded").await.ok();
    run.finish("succeeded").await.ok();
    assert_eq!(events.run().await, (run.run.id, RunStatus::Succeeded));
    assert_eq!(events.bye().await, ByeReason::Over);
    assert!(events.next().await.is_none());
    // Of one that is over there is nothing to wait for.
    let mut events = Stream::open(ann.run_events(&run)).await;
    assert_eq!(events.run().await, (run.run.id, RunStatus::Succeeded));
    assert_eq!(events.bye().await, ByeReason::Over);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_events_still_come() {
    let mut redis = coordination::testing::RedisServer::start().await;
    let setup = Setup {
        settings: vec![("KL_REDIS_URL", redis.url())],
        ..pair()
    };
    let stage = Stage::start_with(setup).await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a"]).await;
    let mut events = ann.on(1).watch("prod").await;
    events.standing(0, 0).await;
    redis.kill();
    let run = ann.apply("prod", alone(&["a"])).await;
    assert_eq!(events.run().await, (run.run.id, RunStatus::Running));
    events.standing(1, 0).await;
    run.set("a", "one").await;
    assert_eq!(events.version().await, 2);
    events.standing(0, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_the_right_to_it_and_with_its_replica() {
    let stage = Stage::start_with(pair()).await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a"]).await;
    let viewer = stage.client(Role::Viewer).await;
    let mut events = viewer.watch("prod").await;
    events.standing(0, 0).await;
    let revoke = format!("/tokens/{}", viewer.token_id);
    Reply::of(stage.admin_request("DELETE", &revoke)).await.ok();
    let run = ann.apply("prod", alone(&["a"])).await;
    assert_eq!(
        events
            .next()
            .await
            .map(|event| matches!(event, Event::Bye(_))),
        Some(true)
    );
    assert!(events.next().await.is_none());
    run.finish("succeeded").await.ok();

    let mut events = ann.watch("prod").await;
    events.standing(0, 0).await;
    stage.app.replicas[0].shutdown.cancel();
    assert_eq!(events.bye().await, ByeReason::Draining);
    assert!(events.next().await.is_none());
    let last = events.last_id.clone().unwrap();
    let mut events = ann.on(1).watch_after("prod", &last).await;
    ann.on(1)
        .write_locked("prod", Doc::new(9).without_resources().bytes())
        .await;
    assert_eq!(events.version().await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_watchers_are_one_look() {
    let wire = Wire::start().await;
    let setup = Setup {
        database_address: Some(wire.address),
        ..Setup::default()
    };
    let stage = Stage::start_with(setup).await;
    let ann = stage.writer().await;
    with_state(&ann, "prod", &["a"]).await;
    let mut streams = Vec::new();
    for _ in 0..40 {
        let mut events = ann.watch("prod").await;
        events.standing(0, 0).await;
        streams.push(events);
    }
    let before = wire.statements();
    tokio::time::sleep(Duration::from_secs(6)).await;
    let during = wire.statements() - before;
    // Three looks of some statements each, and what a replica does anyway. For each watcher it would be hundreds.
    assert!(during < 120, "{during} statements");
    ann.write_locked("prod", Doc::new(2).without_resources().bytes())
        .await;
    for events in &mut streams {
        assert_eq!(events.version().await, 2);
    }
}
