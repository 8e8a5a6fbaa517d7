//! Row security by itself: without any decision before it, a transaction of one workspace sees and writes nothing of
//! another.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on stops where it is"
)]

use auth::{Token, TokenKind};
use protocol::name::DisplayName;
use protocol::tenancy::{Grant, MemberKind, TokenScope};
use protocol::{EnvironmentId, PrincipalId, Role, WorkspaceId};
use sqlx::{AssertSqlSafe, Executor as _, Row as _};
use store::tenancy::audit::{self, Actor, NewEntry};
use store::tenancy::credentials::{self, NewToken, Revocation};
use store::tenancy::idempotency::{self, Claim};
use store::tenancy::{environments, members, workspaces};
use store::testing::TestDatabase;
use store::{Db, Result};

/// A workspace with a row in every table.
struct Populated {
    id: WorkspaceId,
    environment: EnvironmentId,
    principal: PrincipalId,
    token: Token,
}

async fn populate(db: &Db, name: &str) -> Result<Populated> {
    let name: DisplayName = name.parse().unwrap();
    let mut tx = db.begin(&workspaces::new_workspace_id()).await?;
    let workspace = workspaces::create_workspace(&mut tx, &name, "test", None).await?;
    let environment = environments::create_environment(&mut tx, &name, false, None)
        .await?
        .id;
    let grants = vec![Grant {
        role: Role::Admin,
        environment: Some(environment.clone()),
    }];
    let member = members::create_member(&mut tx, MemberKind::Person, "ann", grants).await?;
    let principal = member.principal;
    let token = Token::generate(TokenKind::Person, &mut rand::rng());
    let pepper = auth::Pepper::new(vec![1; 32]).unwrap();
    let new = NewToken {
        id: token.id(),
        kind: TokenKind::Person,
        principal: &principal,
        mac: &pepper.mac(&token),
        description: None,
        scope: &TokenScope::default(),
        created_by: "test",
        lifetime_days: 1,
    };
    credentials::create_token(&mut tx, &new).await?;
    let claim = idempotency::claim(&mut tx, &principal, "key", &[1; 32]).await?;
    assert!(matches!(claim, Claim::New));
    idempotency::answer(&mut tx, &principal, "key", &"answer".into()).await?;
    let actor = Actor {
        principal: &principal,
        display: "ann",
        token_id: None,
        request_id: "r",
    };
    audit::record(
        &mut tx,
        actor,
        NewEntry {
            action: "a",
            target: "t",
            ..NewEntry::default()
        },
    )
    .await?;
    tx.commit().await?;
    Ok(Populated {
        id: workspace.id,
        environment,
        principal,
        token,
    })
}

/// The tables that tenants own.
async fn tenant_tables(database: &TestDatabase) -> Vec<String> {
    let rows = database
        .owner()
        .fetch_all(
            "SELECT relname::text FROM pg_class
             WHERE relrowsecurity AND relnamespace = 'public'::regnamespace",
        )
        .await
        .unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn a_transaction_sees_no_row_of_another_workspace_in_any_table() {
    let database = TestDatabase::create().await;
    let db = database.db();
    let (one, two) = (
        populate(&db, "one").await.unwrap(),
        populate(&db, "two").await.unwrap(),
    );
    let tables = tenant_tables(&database).await;
    for table in [
        "environments",
        "principals",
        "grants",
        "audit_entries",
        "idempotency_keys",
    ] {
        assert!(tables.iter().any(|found| found == table), "{table}");
    }
    for table in tables {
        let count = format!("SELECT count(*) FROM {table} WHERE workspace_id <> $1");
        let mut tx = db.begin(&one.id).await.unwrap();
        let foreign: i64 = sqlx::query_scalar(AssertSqlSafe(count))
            .bind(one.id.as_str())
            .fetch_one(&mut *tx)
            .await
            .unwrap();
        assert_eq!(foreign, 0, "{table}");
    }
    drop(two);
}

#[tokio::test]
async fn without_a_workspace_there_are_no_rows_not_even_after_a_transaction_that_had_one() {
    let database = TestDatabase::create().await;
    let db = database.db();
    let one = populate(&db, "one").await.unwrap();
    let url = database.app_url();
    let url = store::testing::expose(&url);
    let pool = sqlx::postgres::PgPoolOptions::new()
        .max_connections(1)
        .connect(url)
        .await
        .unwrap();
    for round in 0..2 {
        for table in tenant_tables(&database).await {
            let count = format!("SELECT count(*) FROM {table}");
            let rows: i64 = sqlx::query_scalar(AssertSqlSafe(count))
                .fetch_one(&pool)
                .await
                .unwrap();
            assert_eq!(rows, 0, "{table}, round {round}");
        }
        // As kld does it, on the one connection of the pool.
        let begin = format!(
            "BEGIN; SELECT set_config('kl.workspace', '{}', true)",
            one.id
        );
        let mut tx = pool.begin_with(AssertSqlSafe(begin)).await.unwrap();
        let seen: i64 = sqlx::query_scalar("SELECT count(*) FROM environments")
            .fetch_one(&mut *tx)
            .await
            .unwrap();
        assert_eq!(seen, 1);
        tx.commit().await.unwrap();
    }
}

#[tokio::test]
async fn what_belongs_to_another_workspace_is_not_found_and_not_changed() {
    let database = TestDatabase::create().await;
    let db = database.db();
    let (one, two) = (
        populate(&db, "one").await.unwrap(),
        populate(&db, "two").await.unwrap(),
    );
    let mut tx = db.begin(&one.id).await.unwrap();
    assert!(
        environments::find_environment(&mut tx, &two.environment)
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        members::find_member(&mut tx, &two.principal)
            .await
            .unwrap()
            .is_none()
    );
    let change = protocol::tenancy::UpdateEnvironment {
        require_locks: Some(true),
        ..Default::default()
    };
    let changed = environments::update_environment(&mut tx, &two.environment, &change).await;
    assert!(changed.unwrap().is_none());
    let revoked = credentials::revoke_token(&mut tx, two.token.id())
        .await
        .unwrap();
    assert_eq!(revoked, Revocation::NotFound);
    let claim = idempotency::find_answer(&mut tx, &two.principal, "key", &[1; 32])
        .await
        .unwrap();
    assert!(claim.is_none());
    assert_eq!(
        credentials::list_tokens(&mut tx, None, 100)
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        audit::list_entries(&mut tx, None, 100).await.unwrap().len(),
        1
    );
    let grants = [Grant {
        role: Role::Admin,
        environment: Some(two.environment),
    }];
    let refused = members::replace_grants(&mut tx, &one.principal, &grants)
        .await
        .unwrap_err();
    assert!(
        refused.is_constraint(members::GRANT_ENVIRONMENT),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_row_for_another_workspace_cannot_be_written() {
    let database = TestDatabase::create().await;
    let db = database.db();
    let (one, two) = (
        populate(&db, "one").await.unwrap(),
        populate(&db, "two").await.unwrap(),
    );
    let mut tx = db.begin(&one.id).await.unwrap();
    let insert =
        "INSERT INTO environments (workspace_id, id, name) VALUES ($1, 'env_000000000000', 'x')";
    let error = sqlx::query(insert)
        .bind(two.id.as_str())
        .execute(&mut *tx)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("row-level security"), "{error}");
}

#[tokio::test]
async fn the_service_cannot_change_or_remove_audit_entries() {
    let database = TestDatabase::create().await;
    let db = database.db();
    let one = populate(&db, "one").await.unwrap();
    for statement in [
        "UPDATE audit_entries SET action = 'b'",
        "DELETE FROM audit_entries",
        "TRUNCATE audit_entries",
    ] {
        let mut tx = db.begin(&one.id).await.unwrap();
        let error = tx.execute(statement).await.unwrap_err();
        assert!(
            error.to_string().contains("permission denied"),
            "{statement}: {error}"
        );
    }
}
