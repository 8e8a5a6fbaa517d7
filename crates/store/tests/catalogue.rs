//! The catalogue check finds nothing in the migrated schema, and each kind of hole in one that has it.

use sqlx::{AssertSqlSafe, Executor};
use store::testing::TestDatabase;
use store::{Error, catalogue};

#[tokio::test]
async fn the_migrated_schema_and_the_services_role_are_safe() {
    let database = TestDatabase::create().await;
    catalogue::check(&database.db()).await.unwrap();
}

#[tokio::test]
async fn each_kind_of_unsafe_object_is_found() {
    let holes = [
        (
            "CREATE TABLE hole (workspace_id text NOT NULL)",
            "hole does not have row security",
        ),
        (
            "CREATE TABLE hole (id text); ALTER TABLE hole ENABLE ROW LEVEL SECURITY; \
             ALTER TABLE hole FORCE ROW LEVEL SECURITY",
            "hole has no column workspace_id",
        ),
        (
            "ALTER TABLE grants NO FORCE ROW LEVEL SECURITY",
            "grants does not have row security",
        ),
        (
            "DROP POLICY workspace ON grants",
            "grants does not have exactly one policy",
        ),
        (
            "CREATE POLICY wide ON grants USING (true)",
            "grants does not have exactly one policy",
        ),
        (
            "DROP POLICY workspace ON grants; CREATE POLICY workspace ON grants \
             USING (workspace_id = nullif(current_setting('kl.workspace', true), ''))",
            "the policy workspace of grants is not the workspace policy",
        ),
        (
            "DROP POLICY workspace ON grants; CREATE POLICY workspace ON grants \
             USING (workspace_id = current_setting('kl.workspace', true)) \
             WITH CHECK (workspace_id = current_setting('kl.workspace', true))",
            "the policy workspace of grants is not the workspace policy",
        ),
        (
            "CREATE UNIQUE INDEX hole ON environments (lower(name))",
            "the unique index hole does not begin with workspace_id",
        ),
        (
            "CREATE UNIQUE INDEX hole ON environments (id, workspace_id)",
            "the unique index hole does not begin with workspace_id",
        ),
        (
            "ALTER TABLE audit_entries ADD CONSTRAINT hole FOREIGN KEY (token_id) REFERENCES credentials",
            "the foreign key hole of audit_entries does not begin with workspace_id",
        ),
        (
            "CREATE VIEW hole AS SELECT * FROM grants",
            "the view hole reads with its owner's rights",
        ),
        (
            "CREATE MATERIALIZED VIEW hole AS SELECT * FROM grants",
            "hole is a materialized view",
        ),
        (
            "CREATE FUNCTION hole() RETURNS bigint LANGUAGE sql SECURITY DEFINER \
             AS 'SELECT count(*) FROM grants'",
            "the function hole() runs with its owner's rights",
        ),
    ];
    let database = TestDatabase::create().await;
    for (statement, expected) in holes {
        let mut tx = database.owner().begin().await.unwrap();
        tx.execute(AssertSqlSafe(statement)).await.unwrap();
        let problems = catalogue::schema_problems(&mut tx).await.unwrap();
        assert!(
            problems.iter().any(|problem| problem.starts_with(expected)),
            "{statement}\nfound only {problems:?}"
        );
    }
}

#[tokio::test]
async fn a_view_with_the_callers_rights_is_no_hole() {
    let database = TestDatabase::create().await;
    let mut tx = database.owner().begin().await.unwrap();
    tx.execute("CREATE VIEW fine WITH (security_invoker = true) AS SELECT * FROM grants")
        .await
        .unwrap();
    assert_eq!(
        catalogue::schema_problems(&mut tx).await.unwrap(),
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn each_kind_of_unsafe_role_is_found() {
    let holes = [
        ("ALTER ROLE hole SUPERUSER", "the role hole is superuser"),
        (
            "ALTER ROLE hole BYPASSRLS",
            "the role hole may bypass row security",
        ),
        ("ALTER ROLE hole CREATEROLE", "the role hole may make roles"),
        (
            "REVOKE kilolock_app FROM hole",
            "the role is not a member of kilolock_app",
        ),
        ("ALTER TABLE grants OWNER TO hole", "the role owns grants"),
        (
            "GRANT CREATE ON SCHEMA public TO hole",
            "the role may create objects in schema public",
        ),
        (
            "GRANT DELETE ON audit_entries TO hole",
            "the role may change or remove rows",
        ),
        (
            "GRANT UPDATE (result) ON audit_entries TO hole",
            "the role may change or remove rows",
        ),
        (
            "GRANT TRUNCATE ON environments TO hole",
            "the role may truncate environments",
        ),
        (
            "CREATE ROLE hidden_superuser SUPERUSER; GRANT hidden_superuser TO hole",
            "the role hidden_superuser is superuser",
        ),
    ];
    let database = TestDatabase::create().await;
    for (statement, expected) in holes {
        // In a transaction that is never committed, so the server's roles stay as they are.
        let mut tx = database.owner().begin().await.unwrap();
        tx.execute("CREATE ROLE hole IN ROLE kilolock_app")
            .await
            .unwrap();
        tx.execute(AssertSqlSafe(statement)).await.unwrap();
        tx.execute("SET LOCAL ROLE hole").await.unwrap();
        let problems = catalogue::role_problems(&mut tx).await.unwrap();
        assert!(
            problems.iter().any(|problem| problem.starts_with(expected)),
            "{statement}\nfound only {problems:?}"
        );
    }
}

#[tokio::test]
async fn an_unsafe_setup_is_refused_with_every_problem_named() {
    let database = TestDatabase::create().await;
    database
        .owner()
        .execute("ALTER TABLE grants NO FORCE ROW LEVEL SECURITY")
        .await
        .unwrap();
    database
        .owner()
        .execute("ALTER TABLE principals DISABLE ROW LEVEL SECURITY")
        .await
        .unwrap();
    match catalogue::check(&database.db()).await {
        Err(Error::UnsafeSetup(text)) => {
            assert!(
                text.contains("grants") && text.contains("principals"),
                "{text}"
            );
        }
        other => panic!("{other:?}"),
    }
}
