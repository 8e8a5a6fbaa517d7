//! What depends on what.

use protocol::{Code, Role};
use serde_json::json;

use super::documents::network;
use crate::lane::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_is_asked_for_its_neighbours() {
    let stage = Stage::start().await;
    let writer = stage.writer().await;
    writer.write_locked("net", network().bytes()).await;
    let ask = async |query: &str| writer.read(&format!("net/graph?address={query}")).await;

    let db = ask("module.svc.terraform_data.db").await.ok().json();
    assert_eq!(db["seq"], 1);
    assert_eq!(db["dependencies"], json!(["terraform_data.net"]));
    assert_eq!(db["dependents"], json!(["module.svc.terraform_data.app"]));
    assert_eq!(
        db["instances"],
        json!([
            "module.svc[\"eu.west\"].terraform_data.db[0]",
            "module.svc[\"eu.west\"].terraform_data.db[1]",
            "module.svc[\"us\"].terraform_data.db[0]",
        ])
    );
    // An instance stands for its block.
    let by_instance = ask("module.svc[%22us%22].terraform_data.db[0]").await.ok();
    assert_eq!(by_instance.json(), db);

    // What the application depends on by way of the database is not direct.
    let app = ask("module.svc.terraform_data.app").await.ok().json();
    assert_eq!(app["dependencies"], json!(["module.svc.terraform_data.db"]));
    let app = ask("module.svc.terraform_data.app&transitive=true").await;
    assert_eq!(
        app.ok().json()["dependencies"],
        json!(["module.svc.terraform_data.db", "terraform_data.net"])
    );
    let net = ask("terraform_data.net&transitive=true").await.ok().json();
    assert_eq!(
        net["dependents"],
        json!([
            "data.terraform_data.zones",
            "module.svc.terraform_data.app",
            "module.svc.terraform_data.db",
        ])
    );

    ask("terraform_data.none").await.refused(Code::NotFound);
    ask("nonsense").await.refused(Code::InvalidRequest);
    let none = writer
        .read("nowhere/graph?address=terraform_data.net")
        .await;
    none.refused(Code::StateNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_follows_the_state_and_is_counted() {
    let stage = Stage::start().await;
    let writer = stage.writer().await;
    let mut state = network();
    writer.write_locked("net", state.bytes()).await;
    let dependents = async || {
        let reply = writer.read("net/graph?address=terraform_data.apart").await;
        reply.ok().json()["dependents"].clone()
    };
    assert_eq!(dependents().await, json!([]));
    assert_eq!(dependents().await, json!([]));
    state.serial = 2;
    let state = state.with("terraform_data.late", "late", &["terraform_data.apart"]);
    writer.write_locked("net", state.bytes()).await;
    assert_eq!(dependents().await, json!(["terraform_data.late"]));
    // Rolled back, the state is as it was, in a version of its own.
    let maintainer = stage.client(Role::Maintainer).await;
    maintainer.roll_back("net", 1).await.ok();
    assert_eq!(dependents().await, json!([]));
    let metrics = stage.app.metrics().await;
    for source in ["built", "memory", "patched"] {
        let line = format!("kl_graphs_total{{source=\"{source}\"}}");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
}
