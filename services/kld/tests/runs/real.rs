//! The real terraform on a run: what it does with a slice is the contract.

use std::time::Duration;

use protocol::Code;
use protocol::runs::RunStatus;
use serde_json::{Value, json};

use super::stage::{Native, alone, scope, value_of};
use crate::lane::stage::{Client, Stage};
use crate::lane::terraform::Module;

/// A module whose state is the run's slice.
async fn module(run: &Native<'_>, configuration: &str) -> Module {
    let url = run.run.backend.as_ref().unwrap().address.clone();
    Module::at(url, run.token.clone(), configuration).await
}

fn configuration(value: &str) -> String {
    format!(
        "resource \"terraform_data\" \"base\" {{\n  input = \"base\"\n}}\n\
         resource \"terraform_data\" \"app\" {{\n  input = \"{value}-${{terraform_data.base.output}}\"\n}}\n\
         resource \"terraform_data\" \"other\" {{\n  input = \"other\"\n}}\n\
         output \"app\" {{\n  value = terraform_data.app.output\n}}\n"
    )
}

fn app_scope() -> Value {
    let mut scope = scope(&["app"], &[("app", &["base"]), ("base", &[])]);
    scope["configuration"]["outputs"] =
        json!([{ "name": "app", "dependencies": ["terraform_data.app"] }]);
    scope
}

/// Everything, written by plain terraform.
async fn deployed(client: &Client<'_>) {
    let plain = Module::new(client, "prod", &configuration("one")).await;
    plain.apply().await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_run_creates_and_a_later_one_destroys() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let run = ann.apply("prod", alone(&["other"])).await;
    let block = "resource \"terraform_data\" \"other\" {\n  input = \"v1\"\n}\n";
    let terraform = module(&run, block).await;
    terraform
        .run(&[
            "apply",
            "-auto-approve",
            "-input=false",
            "-target=terraform_data.other",
        ])
        .await
        .ok();
    run.finish("succeeded").await.ok();
    assert_eq!(value_of(&ann, "prod", "other").await.as_deref(), Some("v1"));
    // Plain terraform goes on from what the run wrote.
    let plain = Module::new(&ann, "prod", block).await;
    let said = plain
        .run(&["plan", "-input=false", "-detailed-exitcode"])
        .await
        .ok();
    assert!(said.contains("No changes"), "{said}");

    let mut destroy = alone(&["other"]);
    destroy["operation"] = "destroy".into();
    let run = ann.apply("prod", destroy).await;
    let terraform = module(&run, block).await;
    terraform
        .run(&[
            "destroy",
            "-auto-approve",
            "-input=false",
            "-target=terraform_data.other",
        ])
        .await
        .ok();
    run.finish("succeeded").await.ok();
    assert_eq!(value_of(&ann, "prod", "other").await, None);
    assert_eq!(ann.read("prod").await.ok().json()["resources"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_of_a_part_is_what_plain_terraform_would_have_made_of_the_whole() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    deployed(&ann).await;
    let run = ann.apply("prod", app_scope()).await;
    let terraform = module(&run, &configuration("two")).await;
    let target = "-target=terraform_data.app";
    terraform
        .run(&["plan", "-input=false", "-out=plan.out", target])
        .await
        .ok();
    terraform
        .run(&["apply", "-input=false", "plan.out"])
        .await
        .ok();
    run.finish("succeeded").await.ok();
    assert_eq!(
        value_of(&ann, "prod", "app").await.as_deref(),
        Some("two-base")
    );
    let document = ann.read("prod").await.ok().json();
    assert_eq!(document["outputs"]["app"]["value"], "two-base");
    assert_eq!(document["resources"].as_array().unwrap().len(), 3);
    let plain = Module::new(&ann, "prod", &configuration("two")).await;
    let said = plain
        .run(&["plan", "-input=false", "-detailed-exitcode"])
        .await
        .ok();
    assert!(said.contains("No changes"), "{said}");
    let versions = ann.versions("prod").await;
    assert_eq!(versions.last().unwrap().run, Some(run.run.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_in_a_file_is_applied_once_by_whoever_wakes_its_run() {
    let stage = Stage::start().await;
    let (ann, bob) = (stage.writer().await, stage.writer().await);
    deployed(&ann).await;
    let plan = ann.plan("prod", app_scope()).await;
    let terraform = module(&plan, &configuration("planned")).await;
    let target = "-target=terraform_data.app";
    terraform
        .run(&["plan", "-input=false", "-out=plan.out", target])
        .await
        .ok();
    // A run that only plans refuses an apply before anything happens.
    let refused = terraform
        .run(&["apply", "-input=false", "plan.out"])
        .await
        .fails();
    assert!(refused.contains("only plans"), "{refused}");
    let sha256 = "cc".repeat(32);
    plan.post(
        "/finish",
        json!({ "outcome": "planned", "plan_sha256": sha256, "checked": true }),
    )
    .await
    .ok();
    terraform
        .run(&["apply", "-input=false", "plan.out"])
        .await
        .fails();

    let woken = bob.post("/v1/runs/reopen", json!({
        "state": bob.full_name("prod"), "plan_sha256": sha256, "key": "k", "command": "kl apply plan.out", "who": "bob@ci",
    }));
    let woken = Native::of(&bob, woken.await);
    // The file carries the address and the token that it was planned with.
    terraform
        .run(&["apply", "-input=false", "plan.out"])
        .await
        .ok();
    woken.finish("succeeded").await.ok();
    assert_eq!(
        value_of(&ann, "prod", "app").await.as_deref(),
        Some("planned-base")
    );
    assert_eq!(
        ann.versions("prod").await.last().unwrap().created_by,
        bob.name
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_built_is_on_record_when_terraform_is_killed() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let slow = "resource \"terraform_data\" \"first\" {\n  input = \"built\"\n}\n\
                resource \"terraform_data\" \"slow\" {\n  input = terraform_data.first.output\n  \
                provisioner \"local-exec\" {\n    command = \"touch started; exec sleep 60\"\n  }\n}\n";
    let blocks: &[(&str, &[&str])] = &[("slow", &["first"]), ("first", &[])];
    let run = ann.apply("prod", scope(&["slow", "first"], blocks)).await;
    let terraform = module(&run, slow).await;
    let mut child = terraform.start(&["apply", "-auto-approve", "-input=false"]);
    let started = terraform.path().join("started");
    until(async || started.exists()).await;
    // An interrupt makes Terraform upload at once what there is, and wait for the rest.
    let pid = child.id().unwrap().to_string();
    let signalled = tokio::process::Command::new("kill")
        .args(["-INT", &pid])
        .status()
        .await;
    assert!(signalled.unwrap().success());
    until(async || stage.count("SELECT count(*) FROM state_versions").await > 0).await;
    child.kill().await.unwrap();
    assert_eq!(
        value_of(&ann, "prod", "first").await.as_deref(),
        Some("built")
    );

    // Nobody released it: whoever ends it leaves marks, and the next run is told.
    run.post("/abort", json!({ "reason": "killed" })).await.ok();
    assert_eq!(run.now().await.status, RunStatus::Aborted);
    run.read().await.refused(Code::LeaseLost);
    let next = ann.apply("prod", alone(&["first"])).await;
    assert_eq!(next.run.unsettled.len(), 1);
}

/// Waits for a condition, which comes or the test fails.
async fn until(condition: impl AsyncFn() -> bool) {
    let waited = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waited)
        .await
        .expect("it comes to pass");
}
