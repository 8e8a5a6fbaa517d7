//! Operations on single addresses: looked at, done, and what they leave behind.

use protocol::{Code, Role};
use serde_json::{Value, json};

use super::documents::{Built, network};
use crate::lane::stage::{Client, Reply, Stage, lock_info};

async fn operate(client: &Client<'_>, what: &str, mut body: Value) -> Reply {
    let stage = client.stage;
    body["state"] = json!(format!("{}/{}/net", stage.workspace, stage.environment));
    let path = format!("/v1/state-engine/resource-{what}");
    let request = stage.app.request("POST", &path).bearer_auth(&client.token);
    Reply::of(request.json(&body)).await
}

/// The newest document.
async fn document(client: &Client<'_>) -> Value {
    client.read("net").await.ok().json()
}

/// All instances of the newest document: address without the type, and what stands there.
async fn objects(client: &Client<'_>) -> Vec<(String, Value)> {
    objects_in(&document(client).await)
}

fn objects_in(document: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for block in document["resources"].as_array().unwrap() {
        for instance in block["instances"].as_array().unwrap() {
            let module = block["module"].as_str().unwrap_or_default();
            let name = block["name"].as_str().unwrap();
            let key = instance.get("index_key").map(|key| format!("[{key}]"));
            let deposed = instance["deposed"].as_str().unwrap_or_default();
            let address = format!("{module} {name}{} {deposed}", key.unwrap_or_default());
            found.push((address.trim().to_owned(), instance.clone()));
        }
    }
    found
}

async fn addresses(client: &Client<'_>) -> Vec<String> {
    let objects = objects(client).await.into_iter();
    objects.map(|(address, _)| address).collect()
}

async fn staged(stage: &Stage) -> Client<'_> {
    let writer = stage.writer().await;
    writer.write_locked("net", network().bytes()).await;
    writer
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_removed_is_forgotten_with_its_deposed_objects() {
    let stage = Stage::start().await;
    let writer = staged(&stage).await;
    let body = json!({ "address": "module.svc[\"eu.west\"].terraform_data.db" });
    let shown = operate(&writer, "remove/preview", body.clone())
        .await
        .ok()
        .json();
    let preview = &shown["preview"];
    assert_eq!(
        (&preview["action"], &shown["version"]),
        (&json!("remove"), &Value::Null)
    );
    assert_eq!(preview["current"]["Serial"], 1);
    assert_eq!(
        preview["dependents"],
        json!(["module.svc.terraform_data.app"])
    );
    assert_eq!(
        preview["changes"],
        json!([
            { "address": "module.svc[\"eu.west\"].terraform_data.db[0]", "change": "removed" },
            { "address": "module.svc[\"eu.west\"].terraform_data.db[1]", "change": "removed" },
        ])
    );
    assert_eq!(
        writer.versions("net").await.len(),
        1,
        "looking changes nothing"
    );

    let done = operate(&writer, "remove/apply", body.clone())
        .await
        .ok()
        .json();
    assert_eq!(done["version"]["serial"], 2);
    assert_eq!(
        addresses(&writer).await,
        [
            "zones",
            "apart",
            "net",
            "module.svc[\"eu.west\"] app",
            "module.svc[\"us\"] db[0]",
        ]
    );
    let versions = writer.versions("net").await;
    let version = &versions[1];
    assert_eq!(version.source, protocol::states::VersionSource::Native);
    assert_eq!((version.instance_count, version.rows_changed), (5, 3));
    assert!(
        writer.status("net").await.holders.is_empty(),
        "nothing stays held"
    );
    // Again there is nothing to do.
    let again = operate(&writer, "remove/apply", body).await.ok().json();
    assert_eq!(
        (&again["preview"]["action"], &again["version"]),
        (&json!("no-op"), &Value::Null)
    );
    assert_eq!(writer.versions("net").await.len(), 2);
    // The run is on record.
    let runs = writer.read("net/runs").await.ok().json();
    assert_eq!(runs["runs"][0]["kind"], "operation");
    assert_eq!(runs["runs"][0]["status"], "succeeded");
    let command = runs["runs"][0]["command"].as_str().unwrap();
    assert!(command.starts_with("kl state rm module.svc"), "{command}");
    assert_eq!(stage.audited("state.commit").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_takes_along_all_that_belongs_to_an_object_and_lists_follow() {
    let stage = Stage::start().await;
    let writer = stage.writer().await;
    let mut before: Value = serde_json::from_slice(&network().bytes()).unwrap();
    let net = &mut before["resources"][0]["instances"][0];
    net["status"] = json!("tainted");
    net["private"] = json!("cHJpdmF0ZQ==");
    writer.write_locked("net", before.to_string()).await;
    let moved = before["resources"][0]["instances"][0].clone();

    let body =
        json!({ "address": "terraform_data.net", "to": "module.base.terraform_data.vpc[\"a.b\"]" });
    let shown = operate(&writer, "move/preview", body.clone())
        .await
        .ok()
        .json();
    assert_eq!(shown["preview"]["action"], "move");
    // What moves, and everything that names it.
    assert_eq!(
        shown["preview"]["changes"].as_array().unwrap().len(),
        7,
        "{shown:#}"
    );
    operate(&writer, "move/apply", body).await.ok();

    let objects = objects(&writer).await;
    let find = |wanted: &str| {
        let found = objects.iter().find(|(address, _)| address == wanted);
        found
            .unwrap_or_else(|| panic!("{wanted}: {objects:#?}"))
            .1
            .clone()
    };
    let mut arrived = find("module.base vpc[\"a.b\"]");
    assert_eq!(arrived["index_key"].take(), "a.b");
    arrived.as_object_mut().unwrap().remove("index_key");
    // An empty list was not written by Terraform, and is left as it was.
    assert_eq!(arrived, moved);
    assert!(!objects.iter().any(|(address, _)| address == "net"));
    let lists = |wanted: &str| find(wanted)["dependencies"].clone();
    assert_eq!(lists("zones"), json!(["module.base.terraform_data.vpc"]));
    assert_eq!(
        lists("module.svc[\"eu.west\"] app"),
        json!([
            "module.base.terraform_data.vpc",
            "module.svc.terraform_data.db"
        ])
    );
    // A module with keys, with all in it; its own lists follow, too.
    let body = json!({ "address": "module.svc[\"eu.west\"]", "to": "module.svc[\"eu\"]" });
    operate(&writer, "move/apply", body).await.ok();
    let body = json!({ "address": "module.svc", "to": "module.platform" });
    operate(&writer, "move/apply", body).await.ok();
    assert_eq!(
        addresses(&writer).await,
        [
            "zones",
            "apart",
            "module.base vpc[\"a.b\"]",
            "module.platform[\"eu\"] app",
            "module.platform[\"eu\"] db[0]",
            "module.platform[\"eu\"] db[1]",
            "module.platform[\"eu\"] db[1] 0a0b0c0d",
            "module.platform[\"us\"] db[0]",
        ]
    );
    let app = self::objects(&writer).await[3].1["dependencies"].clone();
    assert_eq!(
        app,
        json!([
            "module.base.terraform_data.vpc",
            "module.platform.terraform_data.db"
        ])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_instances_leaves_the_old_name_in_lists() {
    let stage = Stage::start().await;
    let writer = staged(&stage).await;
    let body = json!({
        "address": "module.svc[\"us\"].terraform_data.db[0]", "to": "terraform_data.single",
    });
    operate(&writer, "move/apply", body).await.ok();
    let objects = objects(&writer).await;
    let app = objects
        .iter()
        .find(|(address, _)| address.ends_with(" app"));
    assert_eq!(
        app.unwrap().1["dependencies"],
        json!([
            "module.svc.terraform_data.db",
            "terraform_data.net",
            "terraform_data.single"
        ])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn moves_come_in_batches_and_not_onto_anything() {
    let stage = Stage::start().await;
    let writer = staged(&stage).await;
    let one = |from: &str, to: &str| json!({ "address": from, "to": to });
    let taken = operate(
        &writer,
        "move/apply",
        one("terraform_data.net", "terraform_data.apart"),
    );
    taken.await.refused(Code::Conflict);
    for (from, to) in [
        ("terraform_data.net", "data.terraform_data.net"),
        ("terraform_data.net", "other_type.net"),
        ("terraform_data.net", "module.net"),
        (
            "module.svc[\"eu.west\"].terraform_data.db",
            "terraform_data.db[0]",
        ),
        ("", "terraform_data.x"),
        ("terraform_data.net", ""),
        ("terraform_data.net", "terraform_data"),
    ] {
        let refused = operate(&writer, "move/apply", one(from, to)).await;
        assert_eq!(refused.status, 400, "{from} {to}: {refused:?}");
    }
    let nothing = operate(
        &writer,
        "move/apply",
        one("terraform_data.none", "terraform_data.x"),
    );
    assert_eq!(nothing.await.ok().json()["preview"]["action"], "no-op");
    assert_eq!(writer.versions("net").await.len(), 1);
    // Two change places, and a third goes to where it can.
    let swap = json!({ "moves": [
        { "from": "terraform_data.net", "to": "terraform_data.between" },
        { "from": "terraform_data.apart", "to": "terraform_data.net" },
        { "from": "terraform_data.between", "to": "terraform_data.apart" },
    ]});
    let done = operate(&writer, "move/apply", swap).await.ok().json();
    assert_eq!(done["version"]["seq"], 2);
    let objects = objects(&writer).await;
    let id = |wanted: &str| {
        let found = objects.iter().find(|(address, _)| address == wanted);
        found.unwrap().1["attributes"]["id"].clone()
    };
    assert_eq!((id("net"), id("apart")), (json!("apart"), json!("net")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_restored_from_a_version() {
    let stage = Stage::start().await;
    let writer = staged(&stage).await;
    let first = writer.version("net", 1).await;
    let db = "module.svc[\"eu.west\"].terraform_data.db[1]";
    let remove = json!({ "addresses": [db, "terraform_data.apart"] });
    operate(&writer, "remove/apply", remove).await.ok();
    let body = |to: &str| json!({ "address": db, "to": to });
    let shown = operate(&writer, "rollback/preview", body("@1"))
        .await
        .ok()
        .json();
    assert_eq!(shown["preview"]["action"], "restore");
    assert_eq!(shown["preview"]["target"]["seq"], 1);
    assert_eq!(
        (
            &shown["preview"]["current_exists"],
            &shown["preview"]["target_exists"]
        ),
        (&json!(false), &json!(true))
    );
    operate(&writer, "rollback/apply", body("seq:1")).await.ok();
    let apart = json!({ "address": "terraform_data.apart", "to": "serial:1" });
    operate(&writer, "rollback/apply", apart.clone()).await.ok();
    // Both objects of the address are back, and all else is as it was.
    let mut first = objects_in(&serde_json::from_slice(&first).unwrap());
    let mut now = objects(&writer).await;
    for objects in [&mut first, &mut now] {
        objects.sort_by(|a, b| a.0.cmp(&b.0));
    }
    assert_eq!(now, first);
    let nothing = operate(&writer, "rollback/apply", apart).await.ok().json();
    assert_eq!(nothing["preview"]["action"], "no-op");
    // In a version in which it was gone.
    let gone = operate(&writer, "rollback/apply", body("seq:2"))
        .await
        .ok()
        .json();
    assert_eq!(gone["preview"]["action"], "remove");
    for (to, code) in [
        ("seq:99", Code::VersionNotFound),
        ("serial:99", Code::VersionNotFound),
        ("@99", Code::VersionNotFound),
        ("yesterday", Code::InvalidRequest),
        ("@-1", Code::InvalidRequest),
    ] {
        operate(&writer, "rollback/apply", body(to))
            .await
            .refused(code);
    }
    // Versions and serials drift apart once a serial is skipped; then a bare number says too little.
    writer
        .write_locked(
            "net",
            Built::new(20).with("terraform_data.a", "1", &[]).bytes(),
        )
        .await;
    let version = writer.versions("net").await.len();
    let bare = operate(&writer, "rollback/preview", body("20")).await;
    assert_eq!(bare.ok().json()["preview"]["target"]["seq"], version);
    let blank = operate(
        &writer,
        "rollback/preview",
        json!({ "address": "", "to": "@1" }),
    )
    .await;
    blank.refused(Code::InvalidRequest);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_is_two_versions_is_refused() {
    let stage = Stage::start().await;
    let writer = stage.writer().await;
    for serial in [2, 3] {
        let state = Built::new(serial).with("terraform_data.a", &serial.to_string(), &[]);
        writer.write_locked("net", state.bytes()).await;
    }
    let restore = |to: &str| json!({ "address": "terraform_data.a", "to": to });
    // Serial 2 is version 1, and version 2 has serial 3.
    let bare = operate(&writer, "rollback/preview", restore("2")).await;
    bare.refused(Code::InvalidRequest);
    let named = operate(&writer, "rollback/preview", restore("serial:2")).await;
    assert_eq!(named.ok().json()["preview"]["target"]["seq"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_is_patched_if_it_is_the_one_that_was_seen() {
    let stage = Stage::start().await;
    let writer = staged(&stage).await;
    let before = document(&writer).await;
    let patch = |old: Value, new: Value| {
        json!({
            "address": "terraform_data.net",
            "values": [{ "path": ["input", "value"], "old": old, "new": new }],
        })
    };
    let wrong = operate(&writer, "patch/apply", patch(json!("other"), json!("x"))).await;
    wrong.refused(Code::Conflict);
    let shown = operate(
        &writer,
        "patch/preview",
        patch(json!("net"), json!({ "a": [1] })),
    )
    .await;
    let shown = shown.ok().json();
    assert_eq!(shown["preview"]["current_attrs"]["input"]["value"], "net");
    assert_eq!(
        shown["preview"]["target_attrs"]["input"]["value"],
        json!({ "a": [1] })
    );
    operate(&writer, "patch/apply", patch(json!("net"), json!("wide")))
        .await
        .ok();
    let after = document(&writer).await;
    assert_eq!(
        (&after["serial"], &after["outputs"]),
        (&json!(2), &before["outputs"])
    );
    let (mut expected, mut after) = (objects_in(&before), objects_in(&after));
    let net = expected.iter_mut().find(|(address, _)| address == "net");
    net.unwrap().1["attributes"]["input"]["value"] = json!("wide");
    for objects in [&mut expected, &mut after] {
        objects.sort_by(|a, b| a.0.cmp(&b.0));
    }
    assert_eq!(after, expected);
    let deposed = json!({
        "address": "module.svc[\"eu.west\"].terraform_data.db[1]", "deposed": "0a0b0c0d",
        "values": [{ "path": ["id"], "old": "old", "new": "older" }],
    });
    operate(&writer, "patch/apply", deposed).await.ok();
    for (body, code) in [
        (
            json!({ "address": "terraform_data.none", "values": [{ "path": [], "old": 1, "new": 1 }] }),
            Code::NotFound,
        ),
        (
            json!({ "address": "terraform_data.net", "values": [] }),
            Code::InvalidRequest,
        ),
        (
            json!({ "address": "terraform_data.net", "values": [{ "path": ["no"], "old": 1, "new": 1 }] }),
            Code::Conflict,
        ),
        (
            json!({ "address": "nonsense", "values": [{ "path": [], "old": 1, "new": 1 }] }),
            Code::InvalidRequest,
        ),
    ] {
        operate(&writer, "patch/apply", body).await.refused(code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_is_done_once_for_its_key_and_not_under_a_lock() {
    let stage = Stage::start().await;
    let writer = staged(&stage).await;
    let body = json!({ "address": "terraform_data.apart", "key": "once", "actor": "ann@laptop", "command": "kl state rm x" });
    let done = operate(&writer, "remove/apply", body.clone())
        .await
        .ok()
        .json();
    let again = operate(&writer, "remove/apply", body).await.ok().json();
    assert_eq!(
        (&again["version"], &again["run"]),
        (&done["version"], &done["run"])
    );
    assert_eq!(writer.versions("net").await.len(), 2);

    writer.lock("net", "held").await.ok();
    let body = json!({ "address": "terraform_data.net" });
    let refused = operate(&writer, "remove/apply", body.clone()).await;
    let problem = refused.refused(Code::ReservationConflict);
    assert_eq!(problem["conflicts"][0]["who"], lock_info("held")["Who"]);
    operate(&writer, "remove/preview", body.clone()).await.ok();
    writer.unlock("net", "held").await.ok();
    let reader = stage.client(Role::Reader).await;
    operate(&reader, "remove/preview", body.clone()).await.ok();
    operate(&reader, "remove/apply", body)
        .await
        .refused(Code::Forbidden);
    let long = json!({ "address": "terraform_data.net", "actor": "x".repeat(201) });
    operate(&writer, "remove/apply", long)
        .await
        .refused(Code::InvalidRequest);
}
