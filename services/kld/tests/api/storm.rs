//! Many requests at once, a good part of them given up at a random moment: nothing of one workspace reaches another, no
//! connection stays behind, and what was answered holds.
//!
//! Client libraries have been known to hand the rest of a cancelled answer, or a transaction that was still open, to the
//! next request.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt as _;
use rand::RngExt as _;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Expect as _, Setup, TestApp};
use store::testing::TestDatabase;

/// How many requests, how many at once, and how many of them are given up, in per cent.
const REQUESTS: u32 = 1500;
const AT_ONCE: usize = 6;
const GIVEN_UP: u32 = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_given_up_leave_nothing_to_the_next() {
    let setup = Setup {
        pool: 20,
        // What is answered late is no failure; what fails is what this is about.
        acquire_timeout: Duration::from_secs(30),
        ..Setup::default()
    };
    let app = TestApp::start_with(TestDatabase::create().await, setup).await;
    let workspaces = [
        app.workspace("marker-one").await,
        app.workspace("marker-two").await,
    ];
    let made: Vec<Option<(usize, String)>> = futures::stream::iter(0..REQUESTS)
        .map(|n| {
            let (app, workspaces) = (&app, &workspaces);
            async move {
                let (own, given_up, limit) = {
                    let mut rng = rand::rng();
                    let limit = Duration::from_micros(rng.random_range(100..8_000));
                    (
                        rng.random_range(0..2),
                        rng.random_range(0..100) < GIVEN_UP,
                        limit,
                    )
                };
                let (workspace, foreign) = (&workspaces[own], ["marker-two", "marker-one"][own]);
                let name = format!("{}-{n}", ["marker-one", "marker-two"][own]);
                let request = match n % 3 {
                    0 => workspace
                        .request("POST", "/environments")
                        .json(&json!({ "name": name })),
                    1 => workspace.request("GET", "/environments?limit=1000"),
                    _ => app
                        .request("GET", &workspace.path("/audit?limit=1000"))
                        .bearer_auth(&workspace.token),
                };
                let request = if given_up {
                    request.timeout(limit)
                } else {
                    request
                };
                let response = request.send().await.ok()?;
                let status = response.status();
                let answer = response.text().await.ok()?;
                assert!(!answer.contains(foreign), "{answer}");
                assert!(status.is_success(), "{status} {answer}");
                (status == StatusCode::CREATED).then_some((own, name))
            }
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;

    for (own, workspace) in workspaces.iter().enumerate() {
        let list = workspace
            .request("GET", "/environments?limit=1000")
            .send()
            .await
            .unwrap();
        let page: Value = list.expect(StatusCode::OK).await;
        let kept: BTreeSet<&str> = page["environments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|environment| environment["name"].as_str().unwrap())
            .collect();
        for (_, name) in made.iter().flatten().filter(|(made_in, _)| *made_in == own) {
            assert!(
                kept.contains(name.as_str()),
                "{name} was answered and is gone"
            );
        }
        // Each environment came with its audit entry: no half of a transaction was committed by another.
        let audited: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM audit_entries WHERE workspace_id = $1 AND action = 'environment.create'",
        )
        .bind(workspace.id.as_str())
        .fetch_one(app.database.owner())
        .await
        .unwrap();
        assert_eq!(usize::try_from(audited).unwrap(), kept.len());
    }
    // What the service does in the background is between two statements now and then, and the last to be given up may
    // be rolling back. What was forgotten stays open for a minute.
    let mut open = i64::MAX;
    for _ in 0..100 {
        open = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND state LIKE 'idle in transaction%'",
        )
        .fetch_one(app.database.owner())
        .await
        .unwrap();
        if open == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(open, 0);
}
