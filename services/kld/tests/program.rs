//! The `kld` program itself: what its commands print, refuse and exit with.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on stops where it is"
)]

use std::process::{Command, Output};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sqlx::Executor as _;
use store::testing::{TestDatabase, expose};

/// Runs the program with nothing in its environment but what is given.
fn kld(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kld"));
    command
        .env_clear()
        .args(arguments)
        .envs(environment.iter().copied());
    command.output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_missing_setting_is_named_with_its_fix() {
    let output = kld(&["serve"], &[]);
    assert!(!output.status.success());
    let text = stderr(&output);
    assert!(
        text.starts_with("error: KL_DATABASE_URL: is not set; set it"),
        "{text}"
    );
}

#[test]
fn the_version_and_the_api_document_need_no_settings() {
    assert!(stdout(&kld(&["version"], &[])).starts_with("kld 0."));
    let document: serde_json::Value =
        serde_json::from_str(&stdout(&kld(&["openapi"], &[]))).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
}

#[tokio::test]
async fn a_new_deployment_is_migrated_bootstrapped_and_given_a_workspace() {
    let database = TestDatabase::create().await;
    database
        .owner()
        .execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        .await
        .unwrap();
    let (app, owner) = (database.app_url(), database.owner_url());
    let pepper = STANDARD.encode([1; 32]);
    let environment = [
        ("KL_DATABASE_URL", expose(&app)),
        ("KL_MIGRATE_DATABASE_URL", expose(&owner)),
        ("KL_TOKEN_PEPPER", pepper.as_str()),
        ("KL_DEPLOYMENT_KEY", pepper.as_str()),
    ];
    let early = kld(&["serve"], &environment);
    assert!(
        stderr(&early).contains("run `kld migrate`"),
        "{}",
        stderr(&early)
    );

    assert!(kld(&["migrate"], &environment).status.success());
    let operator = kld(&["admin", "bootstrap"], &environment);
    assert!(
        stdout(&operator).starts_with("klo_"),
        "{}",
        stderr(&operator)
    );
    let again = kld(&["admin", "bootstrap"], &environment);
    assert!(!again.status.success() && stdout(&again).is_empty());

    let create = [
        "admin",
        "workspace",
        "create",
        "acme",
        "--admin",
        "ann@example.org",
    ];
    let created: serde_json::Value =
        serde_json::from_str(&stdout(&kld(&create, &environment))).unwrap();
    assert!(created["token"].as_str().unwrap().starts_with("klp_"));
    let [workspace, principal] = ["workspace", "admin"].map(|key| created[key].as_str().unwrap());
    let token = kld(
        &[
            "admin",
            "token",
            "create",
            "--workspace",
            workspace,
            "--principal",
            principal,
        ],
        &environment,
    );
    assert!(stdout(&token).starts_with("klp_"), "{}", stderr(&token));
}

#[tokio::test]
async fn a_replica_does_not_serve_with_a_role_that_could_get_round_row_security() {
    let database = TestDatabase::create().await;
    let owner = database.owner_url();
    let secret = STANDARD.encode([1; 32]);
    let output = kld(
        &["serve"],
        &[
            ("KL_DATABASE_URL", expose(&owner)),
            ("KL_TOKEN_PEPPER", &secret),
            ("KL_DEPLOYMENT_KEY", &secret),
        ],
    );
    assert!(!output.status.success());
    assert!(
        stderr(&output).contains("is superuser"),
        "{}",
        stderr(&output)
    );
}
