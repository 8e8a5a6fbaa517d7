//! What is looked up by its key costs the same however much there is beside it, under the role of the service and under row
//! security: an index that its owner may use for a comparison is not always one that row security lets be used.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on stops where it is"
)]

use protocol::name::DisplayName;
use protocol::{EnvironmentId, StateName, WorkspaceId};
use sqlx::Executor as _;
use store::tenancy::{environments, workspaces};
use store::testing::TestDatabase;
use store::{VersionRef, WorkspaceTx};
use uuid::Uuid;

/// Versions, runs and reservations of the state, each.
const MANY: i64 = 2_000;

/// Rows that a look-up may read, with those of its neighbours in the index.
const FEW: i64 = 20;

struct Stage {
    database: TestDatabase,
    workspace: WorkspaceId,
    environment: EnvironmentId,
    state: Uuid,
}

async fn stage() -> Stage {
    let database = TestDatabase::create().await;
    let db = database.db();
    let name: DisplayName = "one".parse().unwrap();
    let workspace = workspaces::new_workspace_id();
    let mut tx = db.begin(&workspace).await.unwrap();
    workspaces::create_workspace(&mut tx, &name, "test", None)
        .await
        .unwrap();
    let environment = environments::create_environment(&mut tx, &name, false, None)
        .await
        .unwrap()
        .id;
    let state_name: StateName = "prod".parse().unwrap();
    let state = store::find_or_create_state(&mut tx, &environment, &state_name)
        .await
        .unwrap()
        .id;
    tx.commit().await.unwrap();
    let rows = [
        "INSERT INTO state_versions (workspace_id, state_id, seq, id, serial, source, created_by, principal_id,
             incarnation, forced, unlocked, form, header, rows_digest, instance_count, rows_changed)
         SELECT $1, $2, n, gen_random_uuid(), n, 'native', 'ann', 'p', 1, false, false, 'rows', '\\x00',
                sha256('x'), 0, 0
         FROM generate_series(1, $3) AS n",
        "INSERT INTO reservations (workspace_id, id, state_id, lane, idem_key, token, incarnation, status, base_seq,
             granted_gen, ended_gen, end_reason, ended_at, info, principal_id)
         SELECT $1, gen_random_uuid(), $2, 'native', 'key ' || n, n, 1, 'released', n, n, n, 'done',
                clock_timestamp(), '{}', 'p'
         FROM generate_series(1, $3) AS n",
        "INSERT INTO runs (workspace_id, id, state_id, kind, idem_key, command, who, principal_id, scope, contract,
             base_seq, reservation_id)
         SELECT $1, gen_random_uuid(), $2, 'apply', 'key ' || token, 'kl apply', 'ann', 'p', '{}', '{}', token, id
         FROM reservations WHERE token <= $3",
        "UPDATE states SET head_seq = $3 WHERE workspace_id = $1 AND id = $2",
        "INSERT INTO states (workspace_id, id, environment_id, name)
         SELECT $1, gen_random_uuid(), environment_id, 'other-' || n
         FROM states, generate_series(1, $3) AS n
         WHERE workspace_id = $1 AND states.id = $2",
    ];
    for insert in rows {
        let insert = sqlx::query(insert)
            .bind(workspace.as_str())
            .bind(state)
            .bind(MANY);
        database.owner().execute(insert).await.unwrap();
    }
    Stage {
        database,
        workspace,
        environment,
        state,
    }
}

/// Rows that the transaction has read so far, by whatever way.
async fn rows_read(tx: &mut WorkspaceTx) -> i64 {
    sqlx::query_scalar(
        "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint
         FROM pg_stat_xact_user_tables",
    )
    .fetch_one(&mut **tx)
    .await
    .unwrap()
}

#[tokio::test]
async fn versions_runs_and_states_are_found_without_reading_the_others() {
    let stage = stage().await;
    let db = stage.database.db();
    let state = stage.state;
    let name: StateName = "prod".parse().unwrap();
    // In the first round nobody has counted the rows, in the second the planner knows them.
    for round in 0..2 {
        for reads in [true, false] {
            let mut tx = if reads {
                db.begin_read(&stage.workspace).await.unwrap()
            } else {
                db.begin(&stage.workspace).await.unwrap()
            };
            // As often as it takes until a statement is planned once and for all.
            for time in 0..8 {
                let before = rows_read(&mut tx).await;
                let head = store::find_version(&mut tx, state, VersionRef::Head).await;
                let head = head.unwrap().unwrap();
                assert_eq!(head.seq, MANY);
                for (wanted, seq) in [
                    (VersionRef::Seq(700), Some(700)),
                    (VersionRef::Back(3), Some(MANY - 3)),
                    (VersionRef::Id(head.id), Some(MANY)),
                    (VersionRef::Seq(MANY + 1), None),
                    (VersionRef::Id(Uuid::nil()), None),
                ] {
                    let found = store::find_version(&mut tx, state, wanted).await.unwrap();
                    assert_eq!(found.map(|version| version.seq), seq, "{wanted:?}");
                }
                let page = store::list_runs(&mut tx, state, None, 3).await.unwrap();
                assert_eq!(page.len(), 3);
                assert!(page[0].id > page[1].id && page[1].id > page[2].id);
                let next = store::list_runs(&mut tx, state, Some(page[0].id), 2).await;
                let next: Vec<Uuid> = next.unwrap().into_iter().map(|run| run.id).collect();
                assert_eq!(next, [page[1].id, page[2].id]);
                let run = store::find_run(&mut tx, page[1].id).await.unwrap().unwrap();
                assert_eq!(run.base_serial, Some(run.base_seq.to_string()));
                assert_eq!(run.reservation_status.as_deref(), Some("released"));
                let standing = store::find_run_standing(&mut tx, run.id).await.unwrap();
                assert_eq!(standing.unwrap().reservation_id, run.reservation_id);
                let found = store::find_state(&mut tx, &stage.environment, &name).await;
                assert_eq!(found.unwrap().unwrap().id, state);
                let found = store::find_head(&mut tx, &stage.environment, &name).await;
                assert_eq!(found.unwrap().unwrap().version.unwrap().seq, MANY);
                let read = rows_read(&mut tx).await - before;
                // Two or three rows for each of the dozen questions, one of which steps over three more.
                assert!(
                    read < 12 * FEW,
                    "round {round}, read-only {reads}, time {time}: {read} rows"
                );
            }
            tx.rollback().await.unwrap();
        }
        stage.database.owner().execute("ANALYZE").await.unwrap();
    }
    // That one steps over all of them.
    let mut tx = db.begin_read(&stage.workspace).await.unwrap();
    let back = store::find_version(&mut tx, state, VersionRef::Back(MANY)).await;
    assert!(back.unwrap().is_none());
}
