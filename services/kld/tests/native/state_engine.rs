//! How states are named, what a state is, and slices of it.

use protocol::{Code, Role};
use serde_json::{Value, json};
use tfstate::Digest;

use super::documents::network;
use crate::lane::documents::LINEAGE;
use crate::lane::stage::{Client, Reply, Stage};

async fn post(client: &Client<'_>, rest: &str, body: &Value) -> Reply {
    let path = format!("/v1/state-engine/{rest}");
    let request = client.stage.app.request_to(client.replica, "POST", &path);
    Reply::of(request.bearer_auth(&client.token).json(body)).await
}

fn full_name(stage: &Stage) -> String {
    format!("{}/{}/net", stage.workspace, stage.environment)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_is_named_in_any_of_the_ways_and_only_one_is_meant() {
    let stage = Stage::start().await;
    let writer = stage.writer().await;
    writer.write_locked("net", network().bytes()).await;
    let (workspace, environment) = (&stage.workspace, &stage.environment);
    let full = full_name(&stage);
    for body in [
        json!({ "state": format!(" {full} ") }),
        json!({ "state": "net" }),
        json!({ "state_name": "net" }),
        json!({ "state_url": writer.url("net") }),
        json!({ "workspace_id": workspace, "env_public_id": environment, "state_name": "net" }),
        json!({ "state": full, "state_name": "net", "workspace_id": null }),
    ] {
        let answer = post(&writer, "state/resolve", &body).await.ok().json();
        assert_eq!(answer["state"], full, "{body}");
        assert_eq!(answer["serial"], 1, "{body}");
    }
    for body in [
        json!({ "state": full, "state_name": "other" }),
        json!({ "state": full, "state_url": writer.url("other") }),
    ] {
        let refused = post(&writer, "state/resolve", &body).await;
        refused.refused(Code::QueryAmbiguous);
    }
    for (body, code) in [
        (json!({}), Code::InvalidRequest),
        (json!({ "state": "  " }), Code::InvalidRequest),
        (json!({ "state": "a/b" }), Code::InvalidName),
        (json!({ "state": "a/b/c/d" }), Code::InvalidName),
        (
            json!({ "state": format!("{workspace}/{environment}/") }),
            Code::InvalidName,
        ),
        (
            json!({ "state": format!("{workspace}/{environment}/.x") }),
            Code::InvalidName,
        ),
        (
            json!({ "state": format!("{workspace}/{environment}/NET") }),
            Code::NameCase,
        ),
        (
            json!({ "workspace_id": workspace, "state_name": "net" }),
            Code::NotFound,
        ),
        (json!({ "state": 1 }), Code::InvalidJson),
        (json!([]), Code::InvalidRequest),
    ] {
        let reply = post(&writer, "state/resolve", &body).await;
        assert_eq!(reply.json()["code"], code.as_str(), "{body}: {reply:?}");
    }
    // The header and the query name the state, too.
    let send = async |query: &str, header: &str, body: Value| {
        let path = format!("/v1/state-engine/state/resolve{query}");
        let request = stage.app.request("POST", &path).bearer_auth(&writer.token);
        Reply::of(request.header("x-kilolock-state-name", header).json(&body)).await
    };
    send("", &full, json!({})).await.ok();
    send("", &full, json!({ "state": "net" })).await.ok();
    send("?state_name=net", &full, json!({})).await.ok();
    let other = send("", &full, json!({ "state": "other" })).await;
    other.refused(Code::QueryAmbiguous);
    let other = send("?state=other", &full, json!({})).await;
    other.refused(Code::QueryAmbiguous);
    // With a second environment a name alone says too little.
    let request = stage.admin_request("POST", "/environments");
    Reply::of(request.json(&json!({ "name": "second" })))
        .await
        .ok();
    let admin = Client {
        token: stage.admin.clone(),
        ..writer.clone()
    };
    let reply = post(&admin, "state/resolve", &json!({ "state": "net" })).await;
    reply.refused(Code::InvalidRequest);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_says_what_it_is_and_which_blocks_it_has() {
    let stage = Stage::start().await;
    let viewer = stage.client(Role::Viewer).await;
    let body = json!({ "state": full_name(&stage), "files": ["main.tf"] });
    let answer = post(&viewer, "state/resolve", &body).await.ok().json();
    let nothing = Digest::of(b"").to_string();
    assert_eq!(answer["state_id"], Value::Null);
    assert_eq!((&answer["serial"], &answer["seq"]), (&json!(0), &json!(0)));
    assert_eq!(
        (&answer["lineage"], &answer["native"]),
        (&json!(""), &json!(true))
    );
    assert_eq!(answer["inventory_digest"], nothing);
    assert_eq!(stage.count("SELECT count(*) FROM states").await, 0);

    let writer = stage.writer().await;
    writer.write_locked("net", network().bytes()).await;
    for (address, file) in [
        ("terraform_data.apart", "main.tf"),
        ("terraform_data.gone", "main.tf"),
    ] {
        sqlx::query(
            "INSERT INTO address_sources (workspace_id, state_id, config_address, file, seq)
             SELECT workspace_id, id, $1, $2, 1 FROM states",
        )
        .bind(address)
        .bind(file)
        .execute(stage.app.database.owner())
        .await
        .unwrap();
    }
    let blocks = [
        "module.svc.terraform_data.app",
        "module.svc.terraform_data.db",
        "terraform_data.apart",
        "terraform_data.net",
    ];
    let digest = Digest::of((blocks.join("\n") + "\n").as_bytes()).to_string();
    let answer = post(&viewer, "state/resolve", &body).await.ok().json();
    assert_eq!(answer["lineage"], LINEAGE);
    assert_eq!(answer["creator"], writer.name);
    assert_eq!(answer["inventory_digest"], digest);
    assert_eq!(
        answer["recorded_sources"],
        json!([{ "address": "terraform_data.apart", "file": "main.tf" }])
    );
    let path = format!(
        "/v1/state-engine/state/inventory?state={}",
        full_name(&stage)
    );
    let request = stage.app.request("GET", &path).bearer_auth(&viewer.token);
    let inventory = Reply::of(request).await.ok().json();
    assert_eq!(inventory["digest"], digest);
    assert_eq!(
        inventory["addresses"],
        json!([
            { "address": blocks[0] },
            { "address": blocks[1] },
            { "address": blocks[2], "file": "main.tf" },
            { "address": blocks[3] },
        ])
    );

    let capabilities = stage.app.request("GET", "/v1/state-engine/capabilities");
    let answer = Reply::of(capabilities.bearer_auth(&viewer.token))
        .await
        .ok()
        .json();
    assert_eq!(answer["protocol"], "state-engine");
    assert_eq!(answer["capabilities"]["slice_fetch"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slice_has_the_objects_asked_for_and_all_of_each() {
    let stage = Stage::start().await;
    let writer = stage.writer().await;
    let state = full_name(&stage);
    let ask = async |addresses: &[&str]| {
        let body = json!({ "state": state, "addresses": addresses, "base_serial": 7 });
        post(&writer, "state/slice", &body).await
    };
    ask(&["terraform_data.net"])
        .await
        .refused(Code::StateNotFound);
    let mut document: Value = serde_json::from_slice(&network().bytes()).unwrap();
    let tainted = &mut document["resources"][0]["instances"][0];
    tainted["status"] = json!("tainted");
    tainted["private"] = json!("cHJpdmF0ZQ==");
    tainted["create_before_destroy"] = json!(true);
    tainted["identity"] = json!({ "id": "i" });
    writer.write_locked("net", document.to_string()).await;

    let answer = ask(&[
        "terraform_data.net",
        "module.svc[\"eu.west\"].terraform_data.db[1]",
        "terraform_data.none",
    ])
    .await
    .ok()
    .json();
    assert_eq!(answer["lineage"], LINEAGE);
    assert_eq!((&answer["serial"], &answer["seq"]), (&json!(1), &json!(1)));
    assert_eq!(answer["slice"]["metadata"]["base_serial"], 7);
    let resources = answer["slice"]["resources"].as_array().unwrap();
    assert_eq!(resources.len(), 3, "{resources:#?}");
    let net = &resources[0];
    assert_eq!(net["address"], "terraform_data.net");
    assert_eq!(
        (&net["mode"], &net["type"]),
        (&json!("managed"), &json!("terraform_data"))
    );
    assert_eq!(
        (&net["index_kind"], &net["module_path"]),
        (&json!("none"), &json!(""))
    );
    assert_eq!(
        (&net["status"], &net["private"]),
        (&json!("tainted"), &json!("cHJpdmF0ZQ=="))
    );
    assert_eq!(net["create_before_destroy"], true);
    assert_eq!(net["identity"]["id"], "i");
    assert_eq!(net["attributes"]["id"], "net");
    assert_eq!(net["create_serial"], 1);
    let (current, deposed) = (&resources[1], &resources[2]);
    assert_eq!(current["address"], deposed["address"]);
    assert_eq!(
        (&current["attributes"]["id"], &current["deposed"]),
        (&json!("db1"), &Value::Null)
    );
    assert_eq!(
        (&deposed["attributes"]["id"], &deposed["deposed"]),
        (&json!("old"), &json!("0a0b0c0d"))
    );
    assert_eq!(
        (&current["index_kind"], &current["index_value"]),
        (&json!("int"), &json!("1"))
    );
    assert_eq!(current["dependencies"], json!(["terraform_data.net"]));
    assert_eq!(current["module_path"], "module.svc[\"eu.west\"]");

    let nothing = ask(&[]).await.ok().json();
    assert_eq!(nothing["slice"]["resources"], json!([]));
    let bad = ask(&["terraform_data.net", "terraform_data"]).await;
    let problem = bad.refused(Code::InvalidRequest);
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .starts_with("`addresses[1]`")
    );
    let absent = json!({ "state": state, "addresses": null });
    post(&writer, "state/slice", &absent).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_row_is_no_part_of_a_slice() {
    let stage = Stage::start().await;
    let writer = stage.writer().await;
    writer.write_locked("net", network().bytes()).await;
    stage
        .tamper("UPDATE instances SET body = '{}' WHERE address = 'terraform_data.net'")
        .await;
    let ask = async |address: &str| {
        let body = json!({ "state": full_name(&stage), "addresses": [address] });
        post(&writer, "state/slice", &body).await
    };
    ask("terraform_data.apart").await.ok();
    ask("terraform_data.net").await.refused(Code::StateDamaged);
}
