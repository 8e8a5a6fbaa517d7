//! The ledger excludes exactly what `graph::claims` says excludes each other: its join against the function, on the same
//! claims.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on stops where it is"
)]

use graph::claims::{Claim, ClaimSet, Path};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use protocol::{EnvironmentId, StateName, WorkspaceId};
use store::testing::TestDatabase;
use store::{Db, Lane, NewReservation, WorkspaceTx};
use uuid::Uuid;

fn workspace() -> WorkspaceId {
    WorkspaceId::from_bytes([1; 6])
}

/// Paths close enough to each other to meet often: few names, all depths, keys of both kinds.
fn path() -> impl Strategy<Value = Path> {
    let text = prop_oneof![
        1 => Just("*".to_owned()),
        2 => "module\\.[ab]",
        2 => "module\\.[ab]\\[(0|\"k\")\\]\\.x\\.[ab]",
        2 => "module\\.a\\.module\\.[ab]\\.x\\.a",
        4 => "x\\.[abc]",
        4 => "x\\.[ab]\\[(0|1|\"0\")\\]",
        2 => "data\\.x\\.[ab]",
        2 => "output\\.[ab]",
    ];
    text.prop_map(|text| text.parse().unwrap())
}

fn claims() -> impl Strategy<Value = ClaimSet> {
    let claim = (path(), any::<bool>()).prop_map(|(path, writes)| match writes {
        true => Claim::write(path),
        false => Claim::read(path),
    });
    prop::collection::vec(claim, 1..6).prop_map(ClaimSet::new)
}

async fn state(database: &TestDatabase, db: &Db) -> Uuid {
    sqlx::query("INSERT INTO workspaces (id, name, created_by) VALUES ($1, 'acme', 'test')")
        .bind(workspace().as_str())
        .execute(database.owner())
        .await
        .unwrap();
    let environment = EnvironmentId::from_bytes([2; 6]);
    sqlx::query("INSERT INTO environments (workspace_id, id, name) VALUES ($1, $2, 'prod')")
        .bind(workspace().as_str())
        .bind(environment.as_str())
        .execute(database.owner())
        .await
        .unwrap();
    let mut tx = db.begin(&workspace()).await.unwrap();
    let name: StateName = "prod".parse().unwrap();
    let state = store::find_or_create_state(&mut tx, &environment, &name).await;
    let id = state.unwrap().id;
    tx.commit().await.unwrap();
    id
}

async fn grant(tx: &mut WorkspaceTx, state: Uuid, claims: &ClaimSet) -> Uuid {
    let id = Uuid::now_v7();
    let new = NewReservation {
        id,
        state_id: state,
        run_id: None,
        lane: Lane::Native,
        idem_key: &id.to_string(),
        lease_seconds: Some(60),
        base_seq: 0,
        info: "{}",
        principal_id: "pr_000000000001",
    };
    store::insert_native(tx, &new, claims).await.unwrap();
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn the_join_finds_exactly_what_the_function_says() {
    let database = TestDatabase::create().await;
    let db = database.db();
    let state = state(&database, &db).await;
    let mut runner = TestRunner::new(Config {
        failure_persistence: None,
        ..Config::with_cases(200)
    });
    let cases = (prop::collection::vec(claims(), 1..4), claims());
    let handle = tokio::runtime::Handle::current();
    let outcome = tokio::task::block_in_place(|| {
        runner.run(&cases, |(held, asked)| {
            handle.block_on(async {
                let mut tx = db.begin(&workspace()).await.unwrap();
                let mut expected = Vec::new();
                for claims in &held {
                    let id = grant(&mut tx, state, claims).await;
                    let overlaps = claims.first_overlap(&asked).is_some();
                    prop_assert_eq!(overlaps, claims.nodes().conflict(&asked.nodes()));
                    if overlaps {
                        expected.push(id);
                    }
                }
                let mut found = store::list_conflicting(&mut tx, state, &asked.nodes(), None)
                    .await
                    .unwrap();
                found.sort_unstable();
                prop_assert_eq!(&found, &expected);
                // What was written down is read back as it was.
                let ids: Vec<Uuid> = found.clone();
                let read = store::find_claims(&mut tx, &ids).await.unwrap();
                prop_assert!(read.values().all(|claims| held.contains(claims)));
                for (id, claims) in &read {
                    let grounds = store::find_grounds(&mut tx, *id, Uuid::nil(), "").await;
                    prop_assert_eq!(&grounds.unwrap().0, claims);
                }
                // Who ends leaves the way free.
                for id in &expected {
                    let ended =
                        store::end_reservation(&mut tx, state, *id, store::End::Released, "").await;
                    prop_assert!(ended.unwrap());
                }
                let left = store::list_conflicting(&mut tx, state, &asked.nodes(), None).await;
                prop_assert!(left.unwrap().is_empty());
                tx.rollback().await.unwrap();
                Ok(())
            })
        })
    });
    outcome.unwrap();
}
