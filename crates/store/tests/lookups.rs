//! What is looked up by its key costs the same however much there is beside it, under the role of the service and under row
//! security: an index that its owner may use for a comparison is not always one that row security lets be used.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on stops where it is"
)]

use graph::claims::{Claim, ClaimSet};
use protocol::name::DisplayName;
use protocol::{EnvironmentId, StateName, WorkspaceId};
use sqlx::Executor as _;
use store::tenancy::{environments, workspaces};
use store::testing::TestDatabase;
use store::{End, Lane, NewReservation, VersionRef, WorkspaceTx};
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
    let stage = empty_stage().await;
    stage.add(1, MANY).await;
    stage
}

/// A state without any.
async fn empty_stage() -> Stage {
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
    Stage {
        database,
        workspace,
        environment,
        state,
    }
}

impl Stage {
    /// Adds versions, runs and reservations with these numbers, and states beside this one.
    async fn add(&self, from: i64, to: i64) {
        let rows = [
            "INSERT INTO state_versions (workspace_id, state_id, seq, id, serial, source, created_by, principal_id,
             incarnation, forced, unlocked, form, header, rows_digest, instance_count, rows_changed)
         SELECT $1, $2, n, gen_random_uuid(), n, 'native', 'ann', 'p', 1, false, false, 'rows', '\\x00',
                sha256('x'), 0, 0
         FROM generate_series($3, $4) AS n",
            "INSERT INTO reservations (workspace_id, id, state_id, lane, idem_key, token, incarnation, status, base_seq,
             granted_gen, ended_gen, end_reason, ended_at, info, principal_id)
         SELECT $1, gen_random_uuid(), $2, 'native', 'key ' || n, n, 1, 'released', n, n, n, 'done',
                clock_timestamp(), '{}', 'p'
         FROM generate_series($3, $4) AS n",
            "INSERT INTO runs (workspace_id, id, state_id, kind, idem_key, command, who, principal_id, scope, contract,
             base_seq, reservation_id)
         SELECT $1, gen_random_uuid(), $2, 'apply', 'key ' || token, 'kl apply', 'ann', 'p', '{}', '{}', token, id
         FROM reservations WHERE token BETWEEN $3 AND $4",
            "INSERT INTO claims (workspace_id, reservation_id, path, mode)
         SELECT $1, id, ARRAY['x.r' || token], 'write' FROM reservations WHERE state_id = $2 AND token BETWEEN $3 AND $4",
            "INSERT INTO commit_receipts (workspace_id, run_id, commit_key, request_digest, seq, serial)
         SELECT $1, id, 'once', sha256('x'), base_seq, base_seq FROM runs WHERE state_id = $2 AND base_seq BETWEEN $3 AND $4",
            "INSERT INTO instances (workspace_id, state_id, ord, born_seq, kind, address, config_address, module, mode, type,
             name, block, body, body_digest, dependencies)
         SELECT $1, $2, int8send(n), n, 'current', 'x.r' || n, 'x.r' || n, '', 'managed', 'x', 'r' || n, '', '{}',
                sha256('x'), '{}'
         FROM generate_series($3, $4) AS n",
            "INSERT INTO outputs (workspace_id, state_id, name, born_seq, name_token, body, body_digest)
         SELECT $1, $2, 'o' || n, n, '', '', sha256('x')
         FROM generate_series($3, $4) AS n",
            "UPDATE states SET head_seq = $4 WHERE workspace_id = $1 AND id = $2 AND $3 <= $4",
            "INSERT INTO states (workspace_id, id, environment_id, name)
         SELECT $1, gen_random_uuid(), environment_id, 'other-' || n
         FROM states, generate_series($3, $4) AS n
         WHERE workspace_id = $1 AND states.id = $2",
        ];
        for insert in rows {
            let insert = sqlx::query(insert)
                .bind(self.workspace.as_str())
                .bind(self.state)
                .bind(from)
                .bind(to);
            self.database.owner().execute(insert).await.unwrap();
        }
    }
}

/// One of the runs.
async fn some_run(stage: &Stage) -> Uuid {
    sqlx::query_scalar("SELECT id FROM runs WHERE workspace_id = $1 AND base_seq = $2")
        .bind(stage.workspace.as_str())
        .bind(MANY / 2)
        .fetch_one(stage.database.owner())
        .await
        .unwrap()
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

#[tokio::test]
async fn what_a_commit_asks_for_is_found_without_reading_the_rest() {
    let stage = stage().await;
    let db = stage.database.db();
    let name: StateName = "prod".parse().unwrap();
    let run = some_run(&stage).await;
    for round in 0..2 {
        for time in 0..8 {
            let mut tx = db.begin(&stage.workspace).await.unwrap();
            let before = rows_read(&mut tx).await;
            let named = Some((&stage.environment, &name));
            let locked = store::lock_run_of(&mut tx, run, named).await.unwrap();
            let locked = locked.unwrap();
            assert_eq!((locked.run.id, locked.state.id), (run, stage.state));
            let held = locked.reservation.unwrap();
            assert_eq!(Some(held.id), locked.run.reservation_id);
            assert_eq!(held.token, MANY / 2);

            let (claims, receipt) = store::find_grounds(&mut tx, held.id, run, "once")
                .await
                .unwrap();
            assert_eq!(claims, claim(MANY / 2));
            assert_eq!(receipt.unwrap().seq, MANY / 2);

            let from = store::find_version(&mut tx, stage.state, VersionRef::Seq(MANY - 2)).await;
            let from = from.unwrap().unwrap();
            let base = (from.seq, from.id);
            let changes = store::changes_since(&mut tx, stage.state, base, MANY).await;
            let changes = changes.unwrap().unwrap();
            assert_eq!((changes.born.len(), changes.dead.len()), (2, 0));
            let locked = store::lock_to_commit(&mut tx, stage.state, MANY - 2).await;
            let locked = locked.unwrap();
            assert_eq!(locked.head.unwrap().seq, MANY);
            assert_eq!(locked.touched.addresses.len(), 2);
            assert_eq!(locked.touched.outputs.len(), 2);

            let place = |n: i64| n.to_be_bytes().to_vec();
            let (low, high) = ([place(7)], [place(8)]);
            let places = store::live_places_in_ranges(&mut tx, stage.state, &low, &high).await;
            assert_eq!(places.unwrap(), [(place(7), "x.r7".to_owned())]);
            let read = rows_read(&mut tx).await - before;
            assert!(read < 6 * FEW, "round {round}, time {time}: {read} rows");
            tx.rollback().await.unwrap();
        }
        stage.database.owner().execute("ANALYZE").await.unwrap();
    }
}

fn claim(number: i64) -> ClaimSet {
    let path = format!("x.r{number}").parse().unwrap();
    ClaimSet::new([Claim::write(path)])
}

#[tokio::test]
async fn what_others_hold_elsewhere_is_not_read() {
    let stage = stage().await;
    let db = stage.database.db();
    let owner = stage.database.owner();
    let run = some_run(&stage).await;
    // Counted while nobody held anything, so that an index on what is active looks as good as any.
    owner.execute("ANALYZE").await.unwrap();
    let hold = sqlx::query(
        "INSERT INTO reservations (workspace_id, id, state_id, lane, idem_key, token, incarnation, base_seq, granted_gen,
             info, principal_id)
         SELECT workspace_id, gen_random_uuid(), id, 'native', 'held', 1, 1, 0, 1, '{}', 'p'
         FROM states WHERE workspace_id = $1 AND id <> $2",
    );
    let hold = hold.bind(stage.workspace.as_str()).bind(stage.state);
    owner.execute(hold).await.unwrap();
    let mut tx = db.begin(&stage.workspace).await.unwrap();
    let new = NewReservation {
        id: Uuid::now_v7(),
        state_id: stage.state,
        run_id: Some(run),
        lane: Lane::Native,
        idem_key: "own",
        lease_seconds: Some(60),
        base_seq: MANY,
        info: "{}",
        principal_id: "p",
    };
    // No nearer to the tokens of those that were written down without it.
    sqlx::query("UPDATE lock_heads SET token = 100000 WHERE state_id = $1")
        .bind(stage.state)
        .execute(&mut *tx)
        .await
        .unwrap();
    let held = store::insert_native(&mut tx, &new, &claim(1))
        .await
        .unwrap();
    store::set_run_reservation(&mut tx, run, Some(held.id), MANY)
        .await
        .unwrap();
    let before = rows_read(&mut tx).await;
    let holds: bool = sqlx::query_scalar("SELECT holds FROM run_of_state($1, $2, 'prod', $3)")
        .bind(stage.workspace.as_str())
        .bind(stage.environment.as_str())
        .bind(run)
        .fetch_one(&mut *tx)
        .await
        .unwrap();
    assert!(holds);
    let ended = store::end_reservation(&mut tx, stage.state, held.id, End::Released, "").await;
    assert!(ended.unwrap());
    let read = rows_read(&mut tx).await - before;
    assert!(read < 2 * FEW, "{read} rows");
}

#[tokio::test]
async fn what_changed_is_not_known_of_a_version_that_is_another_by_now() {
    let stage = stage().await;
    let mut tx = stage.database.db().begin(&stage.workspace).await.unwrap();
    let head = store::find_version(&mut tx, stage.state, VersionRef::Head).await;
    let head = (MANY, head.unwrap().unwrap().id);
    let changes = store::changes_since(&mut tx, stage.state, head, MANY).await;
    // Nothing changed, which is not the same.
    let changes = changes.unwrap().unwrap();
    assert!(changes.born.is_empty() && changes.dead.is_empty());
    let another = (MANY, Uuid::now_v7());
    let changes = store::changes_since(&mut tx, stage.state, another, MANY).await;
    assert!(changes.unwrap().is_none());
    // Before the first version there was nothing.
    let touched = store::touched_between(&mut tx, stage.state, 0, 2).await;
    let touched = touched.unwrap();
    for address in ["x.r1", "x.r2"] {
        assert!(touched.addresses.iter().any(|touched| touched == address));
    }
    assert_eq!(touched.outputs, ["o1", "o2"]);
}

#[tokio::test]
async fn a_run_of_another_state_is_none_of_this_one() {
    let stage = stage().await;
    let db = stage.database.db();
    let run = some_run(&stage).await;
    let mut tx = db.begin(&stage.workspace).await.unwrap();
    for name in ["other-1", "nobody"] {
        let name: StateName = name.parse().unwrap();
        let named = Some((&stage.environment, &name));
        assert!(
            store::lock_run_of(&mut tx, run, named)
                .await
                .unwrap()
                .is_none()
        );
        let place = (&stage.environment, &name);
        let found = store::find_run_at_once(&db, &stage.workspace, place, run).await;
        assert!(found.unwrap().is_none());
    }
    let name: StateName = "PROD".parse().unwrap();
    let named = Some((&stage.environment, &name));
    assert!(
        store::lock_run_of(&mut tx, run, named)
            .await
            .unwrap()
            .is_some()
    );
    let place = (&stage.environment, &name);
    let found = store::find_run_at_once(&db, &stage.workspace, place, run).await;
    let found = found.unwrap().unwrap();
    assert_eq!((found.state.id, found.holds), (stage.state, false));
    // Of another workspace nothing is seen at all.
    let elsewhere = WorkspaceId::from_bytes([9; 6]);
    let found = store::find_run_at_once(&db, &elsewhere, place, run).await;
    assert!(found.unwrap().is_none());
    let mut tx = db.begin(&elsewhere).await.unwrap();
    assert!(
        store::lock_run_of(&mut tx, run, None)
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn a_run_whose_row_was_waited_for_is_as_the_other_left_it() {
    let stage = stage().await;
    let db = stage.database.db();
    let run = some_run(&stage).await;
    let mut first = db.begin(&stage.workspace).await.unwrap();
    let before = store::lock_run_of(&mut first, run, None).await.unwrap();
    let before = before.unwrap().reservation.unwrap();
    // Another of the reservations that there are.
    let other: Uuid = sqlx::query_scalar("SELECT id FROM reservations WHERE token = $1")
        .bind(before.token + 1)
        .fetch_one(&mut *first)
        .await
        .unwrap();
    store::set_run_reservation(&mut first, run, Some(other), 7)
        .await
        .unwrap();
    let waits = {
        let (db, workspace) = (db.clone(), stage.workspace.clone());
        tokio::spawn(async move {
            let mut second = db.begin(&workspace).await.unwrap();
            store::lock_run_of(&mut second, run, None)
                .await
                .unwrap()
                .unwrap()
        })
    };
    // Until it waits for the row.
    let waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)";
    while !sqlx::query_scalar::<_, bool>(waiting)
        .fetch_one(stage.database.owner())
        .await
        .unwrap()
    {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    first.commit().await.unwrap();
    let seen = waits.await.unwrap();
    assert_eq!(seen.run.base_seq, 7);
    assert_eq!(seen.reservation.unwrap().id, other);
}

#[tokio::test]
async fn what_was_planned_while_there_was_little_is_found_as_quickly_later() {
    let stage = empty_stage().await;
    let db = stage.database.db();
    stage.add(1, 1).await;
    // No nearer to the tokens of those that were written down without it.
    let owner = stage.database.owner();
    let ahead = "UPDATE lock_heads SET token = 100000";
    owner.execute(ahead).await.unwrap();
    let name: StateName = "prod".parse().unwrap();
    for many in [1, MANY] {
        if many > 1 {
            stage.add(2, many).await;
        }
        // The first round plans everything once and for all, on the connection that the second one finds again.
        for time in 0..8 {
            let mut tx = db.begin(&stage.workspace).await.unwrap();
            let before = rows_read(&mut tx).await;
            let head = store::find_version(&mut tx, stage.state, VersionRef::Head).await;
            let head = head.unwrap().unwrap();
            assert_eq!(head.seq, many);
            let by_id = VersionRef::Id(head.id);
            let found = store::find_version(&mut tx, stage.state, by_id).await;
            assert_eq!(found.unwrap().unwrap().seq, many);
            let newest = store::list_runs(&mut tx, stage.state, None, 1).await;
            let run = newest.unwrap().remove(0).id;
            let named = Some((&stage.environment, &name));
            let locked = store::lock_run_of(&mut tx, run, named).await.unwrap();
            let ended = locked.unwrap().reservation.unwrap();
            let found = store::find_reservation(&mut tx, ended.id).await.unwrap();
            assert_eq!(found.unwrap().idem_key, ended.idem_key);
            let held = store::lock_held(&mut tx, ended.id, ended.token).await;
            assert!(held.unwrap().is_none());
            let (claims, _) = store::find_grounds(&mut tx, ended.id, run, "once")
                .await
                .unwrap();
            assert_eq!(claims, claim(ended.token));
            let locked = store::lock_to_commit(&mut tx, stage.state, many - 1).await;
            let touched = locked.unwrap().touched;
            assert_eq!(touched.addresses, [format!("x.r{many}")]);
            assert_eq!(touched.outputs, [format!("o{many}")]);
            reserve_and_release(&mut tx, &stage, run).await;
            let lock = NewReservation {
                id: Uuid::now_v7(),
                state_id: stage.state,
                run_id: None,
                lane: Lane::Terraform,
                idem_key: "a lock",
                lease_seconds: None,
                base_seq: many,
                info: "{}",
                principal_id: "p",
            };
            let granted = store::insert_whole_state(&mut tx, &lock).await.unwrap();
            let held = store::list_active(&mut tx, stage.state).await.unwrap();
            assert_eq!(held.len(), 1);
            let again = store::find_by_key(&mut tx, stage.state, "a lock").await;
            assert_eq!(again.unwrap().unwrap().id, granted.id);
            let read = rows_read(&mut tx).await - before;
            assert!(read < 10 * FEW, "of {many}, time {time}: {read} rows");
            tx.rollback().await.unwrap();
        }
    }
}

/// In one round trip each, for a run that holds nothing any more.
async fn reserve_and_release(tx: &mut WorkspaceTx, stage: &Stage, run: Uuid) {
    store::set_run_reservation(tx, run, None, 1).await.unwrap();
    let id = Uuid::now_v7();
    let reserve = sqlx::query(
        "SELECT FROM reserve_at_once($1, $2, $3, 'native', 'at once', 60, '{}', 'p', $4, ARRAY['x.r1'], ARRAY['write'],
             ARRAY[7::bigint], ARRAY[1::smallint], ARRAY[3::smallint],
             jsonb_build_object('id', gen_random_uuid(), 'principal_id', 'p', 'display', 'ann', 'action', 'x', 'target', 'x',
                 'request_id', 'r', 'result', 'done'))",
    );
    let reserve = reserve.bind(stage.workspace.as_str()).bind(stage.state);
    let granted = reserve.bind(id).bind(run).fetch_all(&mut **tx).await;
    assert_eq!(granted.unwrap().len(), 1);
    let held = sqlx::query("SELECT FROM held_by_run($1, $2, 'p') WHERE reservation_id = $3");
    let held = held.bind(stage.workspace.as_str()).bind(run).bind(id);
    assert_eq!(held.fetch_all(&mut **tx).await.unwrap().len(), 1);
    let release = sqlx::query("SELECT FROM release_at_once($1, $2, $3, $4, 'given up')");
    let release = release.bind(stage.workspace.as_str()).bind(stage.state);
    let ended = release.bind(run).bind(id).fetch_all(&mut **tx).await;
    assert_eq!(ended.unwrap().len(), 1);
}
