//! The chain through the audit log: complete, and broken by whatever is changed.

use std::time::Duration;

use kld::commands::audit::verify_chains;

use crate::harness::TestApp;

#[tokio::test(flavor = "multi_thread")]
async fn every_entry_is_chained_and_a_changed_or_missing_one_is_found() {
    let app = TestApp::start().await;
    let workspace = app.workspace("acme").await;
    for name in ["one", "two", "three"] {
        workspace.environment(name).await;
    }
    let db = app.database.db();
    let verified = || verify_chains(&db, Some(workspace.id.clone()));
    let mut said = String::new();
    for _ in 0..300 {
        said = verified().await.unwrap();
        if said.contains("4 entries in the chain, 0 not yet") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(said.contains("4 entries in the chain, 0 not yet"), "{said}");
    // As a superuser may: the service's own role can do neither.
    tamper(
        &app,
        "UPDATE audit_entries SET target = 'nothing' WHERE chain_no = 2",
    )
    .await;
    let error = verified().await.unwrap_err().to_string();
    assert!(error.contains("entry number 2"), "{error}");
    tamper(&app, "DELETE FROM audit_entries WHERE chain_no = 2").await;
    let error = verified().await.unwrap_err().to_string();
    assert!(error.contains("entry number 2 is missing"), "{error}");
}

async fn tamper(app: &TestApp, statement: &'static str) {
    let done = sqlx::query(statement).execute(app.database.owner());
    assert_eq!(done.await.unwrap().rows_affected(), 1);
}
