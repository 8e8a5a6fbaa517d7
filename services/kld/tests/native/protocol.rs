//! The primitives one by one, as a client of the public protocol uses them.

use ::protocol::Code;
use serde_json::{Value, json};

use store::testing::Wire;

use super::documents::{Built, network};
use crate::harness::Setup;
use crate::lane::stage::{Client, Reply, Stage};

async fn post(client: &Client<'_>, rest: &str, mut body: Value) -> Reply {
    let stage = client.stage;
    body["state"] = json!(format!("{}/{}/net", stage.workspace, stage.environment));
    let path = format!("/v1/state-engine/{rest}");
    let request = stage.app.request("POST", &path).bearer_auth(&client.token);
    Reply::of(request.json(&body)).await
}

async fn begin(client: &Client<'_>) -> String {
    let body = json!({ "actor": "ann@laptop", "source_serial": 1, "info": { "a": 1 } });
    let run = post(client, "apply-runs/begin", body).await.ok().json();
    assert_eq!(
        (&run["Status"], &run["status"]),
        (&json!("running"), &json!("running"))
    );
    assert_eq!((&run["ID"], &run["Info"]), (&run["id"], &json!({ "a": 1 })));
    run["ID"].as_str().unwrap().to_owned()
}

fn want(run: &str, claims: &[(&str, &str)]) -> Value {
    let want: Vec<Value> = claims
        .iter()
        .map(|(address, mode)| json!({ "AddressGlob": address, "Mode": mode }))
        .collect();
    json!({ "apply_id": run, "holder": "ann@laptop", "lease_seconds": 60, "want": want })
}

async fn status(client: &Client<'_>, run: &str) -> Reply {
    let path = format!("/v1/state-engine/apply-runs/{run}/status");
    let request = client.stage.app.request("GET", &path);
    Reply::of(request.bearer_auth(&client.token)).await
}

/// What a state document has of the resource, with another value.
fn resource(name: &str, value: &str) -> Value {
    let address = format!("terraform_data.{name}");
    let document = Built::new(1).with(&address, value, &[]).bytes();
    let mut document: Value = serde_json::from_slice(&document).unwrap();
    document["resources"][0].take()
}

async fn ids(client: &Client<'_>) -> Vec<String> {
    let document = client.read("net").await.ok().json();
    let mut ids = Vec::new();
    for block in document["resources"].as_array().unwrap() {
        for instance in block["instances"].as_array().unwrap() {
            ids.push(instance["attributes"]["id"].as_str().unwrap().to_owned());
        }
    }
    ids.sort_unstable();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_native_apply_takes_all_its_steps() {
    let stage = Stage::start().await;
    let writer = stage.writer().await;
    let mut before: Value = serde_json::from_slice(&network().bytes()).unwrap();
    before["resources"][0]["instances"][0]["private"] = json!("cHI=");
    writer.write_locked("net", before.to_string()).await;
    let run = begin(&writer).await;
    let lock = post(
        &writer,
        "terraform-lock/acquire",
        json!({ "apply_id": run }),
    )
    .await;
    assert_eq!(lock.ok().json()["lock_id"], format!("state-engine-{run}"));
    let claims = [
        ("terraform_data.apart", "write"),
        ("terraform_data.fresh", "write"),
        ("terraform_data.net", "read"),
    ];
    post(&writer, "reservations/acquire", want(&run, &claims))
        .await
        .ok();
    // Plain Terraform finds the state locked meanwhile.
    writer.lock("net", "plain").await.refused(Code::StateLocked);
    let renewed = post(
        &writer,
        &format!("reservations/{run}/renew"),
        json!({ "lease_seconds": 60 }),
    )
    .await;
    assert_eq!(renewed.ok().json()["renewed"], 3);
    assert_eq!(status(&writer, &run).await.ok().json()["status"], "running");

    let delta = json!({
        "apply_id": run, "base_serial": 1, "mode": "delta",
        "delta": {
            "terraform_version": "", "lineage": "", "check_results": null,
            "output_writes": { "apart": { "value": "new", "type": "string" }, "more": { "value": 1, "type": "number" } },
            "output_delete_set": ["net"],
            "resources": [resource("fresh", "fresh"), resource("unlisted", "unlisted")],
            "write_set": ["terraform_data.fresh", "terraform_data.apart"],
        },
    });
    let done = post(&writer, "state/commit", delta).await.ok().json();
    assert_eq!(
        (&done["committed_serial"], &done["commit_mode"]),
        (&json!(2), &json!("delta"))
    );
    let version = writer.versions("net").await.pop().unwrap();
    assert_eq!(done["new_version_id"], json!(version.id.as_uuid()));
    let after = writer.read("net").await.ok().json();
    assert_eq!(
        after["outputs"],
        json!({ "apart": { "value": "new", "type": "string" }, "more": { "value": 1, "type": "number" } })
    );
    assert_eq!(
        (&after["lineage"], &after["terraform_version"]),
        (&before["lineage"], &json!("1.11.4"))
    );
    // What is written and not there goes, what is not listed does not come, and all else is untouched.
    assert_eq!(
        ids(&writer).await,
        ["app", "db0", "db1", "db2", "fresh", "net", "old", "zones"]
    );
    let blocks = after["resources"].as_array().unwrap();
    let net = blocks.iter().find(|block| block["name"] == "net").unwrap();
    assert_eq!(net["instances"][0]["private"], "cHI=");

    let finish = json!({ "status": "committed", "committed_serial": 2 });
    post(&writer, &format!("apply-runs/{run}/finish"), finish.clone())
        .await
        .ok();
    post(&writer, &format!("reservations/{run}/release"), json!({}))
        .await
        .ok();
    post(
        &writer,
        "terraform-lock/release",
        json!({ "apply_id": run }),
    )
    .await
    .ok();
    assert_eq!(
        status(&writer, &run).await.ok().json()["status"],
        "committed"
    );
    let again = post(&writer, &format!("apply-runs/{run}/finish"), finish).await;
    let problem = again.refused(Code::InvalidRequest);
    assert_eq!(problem["error"], "apply run already finished");
    writer.lock("net", "plain").await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_cover_their_instances_and_nothing_is_lost() {
    let stage = Stage::start().await;
    let writer = stage.writer().await;
    writer.write_locked("net", network().bytes()).await;
    let run = begin(&writer).await;
    let group = "module.svc.terraform_data.db";
    post(
        &writer,
        "reservations/acquire",
        want(&run, &[("module.svc", "write")]),
    )
    .await
    .ok();
    // Somebody else, on an instance of it and on a module beside it.
    let other = begin(&writer).await;
    let instance = ("module.svc[\"us\"].terraform_data.db[0]", "read");
    let busy = post(&writer, "reservations/acquire", want(&other, &[instance])).await;
    let problem = busy.refused(Code::ReservationConflict);
    assert_eq!(problem["error"], "reservation_conflict");
    let conflict = &problem["conflicts"][0];
    assert_eq!(
        (&conflict["ApplyID"], &conflict["apply_id"]),
        (&json!(run), &json!(run))
    );
    assert_eq!(
        (&conflict["Holder"], &conflict["Mode"]),
        (&json!("ann@laptop"), &json!("write"))
    );
    assert_eq!(conflict["AddressGlob"], conflict["address_glob"]);
    let beside = [
        ("module.svc2.*", "write"),
        ("terraform_data.apart", "write"),
    ];
    post(&writer, "reservations/acquire", want(&other, &beside))
        .await
        .ok();

    // Without a snapshot's own rows for it, the whole group goes, deposed object and all.
    let snapshot = Built::new(9)
        .with("terraform_data.apart", "changed", &[])
        .bytes();
    let commit = json!({
        "apply_id": run, "raw_state": String::from_utf8(snapshot).unwrap(), "write_set": [group],
    });
    let done = post(&writer, "state/commit", commit).await.ok().json();
    assert_eq!(done["commit_mode"], "snapshot-selected");
    assert_eq!(ids(&writer).await, ["apart", "app", "net", "zones"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_reserved_or_has_changed_is_not_committed() {
    let stage = Stage::start().await;
    let writer = stage.writer().await;
    writer.write_locked("net", network().bytes()).await;
    let run = begin(&writer).await;
    let commit = |run: &str, base: u64, name: &str| {
        json!({
            "apply_id": run, "base_serial": base, "mode": "delta",
            "delta": { "resources": [resource(name, "changed")], "write_set": [format!("terraform_data.{name}")] },
        })
    };
    post(&writer, "state/commit", commit(&run, 1, "apart"))
        .await
        .refused(Code::OutsideScope);
    post(
        &writer,
        "reservations/acquire",
        want(&run, &[("terraform_data.apart", "write")]),
    )
    .await
    .ok();
    post(&writer, "state/commit", commit(&run, 1, "net"))
        .await
        .refused(Code::OutsideScope);
    post(&writer, "state/commit", commit(&run, 1, "apart"))
        .await
        .ok();
    // Its own commit is no conflict; the next run's view from before that is one.
    post(&writer, "state/commit", commit(&run, 1, "apart"))
        .await
        .ok();
    assert_eq!(
        writer.versions("net").await.len(),
        2,
        "the same again is no version"
    );
    post(&writer, &format!("reservations/{run}/release"), json!({}))
        .await
        .ok();
    let late = begin(&writer).await;
    post(
        &writer,
        "reservations/acquire",
        want(
            &late,
            &[
                ("terraform_data.apart", "write"),
                ("terraform_data.net", "write"),
            ],
        ),
    )
    .await
    .ok();
    let conflict = post(&writer, "state/commit", commit(&late, 1, "apart")).await;
    let problem = conflict.refused(Code::VersionConflict);
    assert_eq!(problem["error"], "state_serial_conflict");
    assert_eq!(
        (&problem["message"], &problem["current_serial"]),
        (&json!("state serial conflict"), &json!(2))
    );
    // What it did not touch is as the run saw it.
    post(&writer, "state/commit", commit(&late, 1, "net"))
        .await
        .ok();
    // Another's run, another state's run, no run.
    let somebody = stage.writer().await;
    post(&somebody, "state/commit", commit(&late, 3, "net"))
        .await
        .refused(Code::Forbidden);
    let nobody = "00000000-0000-0000-0000-000000000001";
    post(&writer, "state/commit", commit(nobody, 3, "net"))
        .await
        .refused(Code::NotFound);
    post(&writer, "state/commit", commit("x", 3, "net"))
        .await
        .refused(Code::InvalidRequest);
    for (body, error) in [
        (
            json!({ "apply_id": late, "mode": "merge" }),
            "native_commit_not_supported",
        ),
        (
            json!({ "apply_id": late, "mode": "delta" }),
            "invalid_request",
        ),
        (json!({ "apply_id": late }), "invalid_request"),
    ] {
        let problem = post(&writer, "state/commit", body)
            .await
            .refused(Code::InvalidRequest);
        assert_eq!(problem["error"], error);
    }
    let reason = json!({ "reason": "no more" });
    post(&writer, &format!("apply-runs/{late}/abort"), reason.clone())
        .await
        .ok();
    assert_eq!(
        status(&writer, &late).await.ok().json()["status"],
        "aborted"
    );
    post(&writer, "state/commit", commit(&late, 3, "net"))
        .await
        .refused(Code::LeaseLost);
    let renewed = post(&writer, &format!("reservations/{late}/renew"), json!({})).await;
    assert_eq!(renewed.ok().json()["renewed"], 0);
    let again = post(&writer, &format!("apply-runs/{late}/abort"), reason).await;
    again.refused(Code::InvalidRequest);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_state_gets_its_first_version_and_bad_words_are_refused() {
    let stage = Stage::start().await;
    let writer = stage.writer().await;
    let run = begin(&writer).await;
    for (wanted, detail) in [
        (json!([{ "AddressGlob": "", "Mode": "write" }]), "`want[0]`"),
        (
            json!([{ "address_glob": "terraform_data.a", "mode": "take" }]),
            "`want[0]`",
        ),
        (
            json!([{ "address_glob": "nonsense", "mode": "read" }]),
            "`nonsense`",
        ),
    ] {
        let body = json!({ "apply_id": run, "want": wanted });
        let problem = post(&writer, "reservations/acquire", body)
            .await
            .refused(Code::InvalidRequest);
        assert!(
            problem["detail"].as_str().unwrap().starts_with(detail),
            "{problem:?}"
        );
    }
    post(&writer, "reservations/acquire", want(&run, &[]))
        .await
        .ok();
    post(
        &writer,
        "reservations/acquire",
        want(&run, &[("*", "write")]),
    )
    .await
    .ok();
    let document = String::from_utf8(network().bytes()).unwrap();
    let commit = json!({ "apply_id": run, "base_serial": 0, "raw_state": document });
    let done = post(&writer, "state/commit", commit).await.ok().json();
    assert_eq!(
        (&done["committed_serial"], &done["commit_mode"]),
        (&json!(1), &json!("snapshot"))
    );
    assert_eq!(ids(&writer).await.len(), 8);
    for (body, words) in [
        (json!({ "status": "running" }), "is not terminal"),
        (
            json!({ "status": "committed" }),
            "requires a committed_serial",
        ),
        (
            json!({ "status": "failed", "committed_serial": 1 }),
            "must be nil",
        ),
    ] {
        let refused = post(&writer, &format!("apply-runs/{run}/finish"), body).await;
        let problem = refused.refused(Code::InvalidRequest);
        assert!(
            problem["error"].as_str().unwrap().contains(words),
            "{problem:?}"
        );
    }
    post(
        &writer,
        &format!("apply-runs/{run}/finish"),
        json!({ "status": "failed", "error_summary": "it broke" }),
    )
    .await
    .ok();
    assert_eq!(status(&writer, &run).await.ok().json()["status"], "failed");
    // A lock of plain Terraform is in the way, and is told in both ways.
    writer.lock("net", "plain").await.ok();
    let run = begin(&writer).await;
    let problem = post(
        &writer,
        "terraform-lock/acquire",
        json!({ "apply_id": run }),
    )
    .await;
    let problem = problem.refused(Code::StateLocked);
    assert_eq!(problem["error"], "terraform_locked");
    assert_eq!(problem["lock"]["Who"], "plain@ci");
    let missing = status(&writer, "00000000-0000-0000-0000-000000000001").await;
    missing.refused(Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reserves_waits_its_turn_and_is_told_so() {
    let stage = Stage::start().await;
    let writer = stage.writer().await;
    writer.write_locked("net", network().bytes()).await;
    let (holder, wide, late) = (
        begin(&writer).await,
        begin(&writer).await,
        begin(&writer).await,
    );
    let acquire = async |body: Value| post(&writer, "reservations/acquire", body).await;
    let apart = ("terraform_data.apart", "write");
    let net = ("terraform_data.net", "write");
    acquire(want(&holder, &[apart])).await.ok();
    // Who comes back has a place, and those who came later wait for it.
    let both = want(&wide, &[apart, net]);
    acquire(both.clone())
        .await
        .refused(Code::ReservationConflict);
    let waits = acquire(both.clone())
        .await
        .refused(Code::ReservationConflict);
    assert_eq!(
        (&waits["error"], &waits["ahead"]),
        (&json!("reservation_conflict"), &json!(0))
    );
    let behind = acquire(want(&late, &[net]))
        .await
        .refused(Code::ReservationConflict);
    assert_eq!(
        (&behind["conflicts"], &behind["ahead"]),
        (&json!([]), &json!(1))
    );
    post(
        &writer,
        &format!("reservations/{holder}/release"),
        json!({}),
    )
    .await
    .ok();
    acquire(want(&late, &[net]))
        .await
        .refused(Code::ReservationConflict);
    let mut again = both;
    again["ticket"] = waits["ticket"].clone();
    acquire(again).await.ok();
    post(&writer, &format!("reservations/{wide}/release"), json!({}))
        .await
        .ok();
    acquire(want(&late, &[net])).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_costs_few_statements_however_often_it_was_gone_before() {
    let wire = Wire::start().await;
    let stage = Stage::start_with(Setup {
        database_address: Some(wire.address),
        pool: 1,
        ..Setup::default()
    })
    .await;
    let writer = stage.writer().await;
    writer.write_locked("net", network().bytes()).await;
    let run = begin(&writer).await;
    // What else the service does meanwhile only adds, so the least is what each costs.
    let mut least = [u64::MAX; 3];
    for round in 0..9 {
        let commit = json!({
            "apply_id": run, "mode": "delta",
            "delta": {
                "terraform_version": "", "lineage": "",
                "resources": [resource("apart", &format!("round {round}"))],
                "write_set": ["terraform_data.apart"],
            },
        });
        let release = format!("reservations/{run}/release");
        let steps = [
            (
                "reservations/acquire",
                want(&run, &[("terraform_data.apart", "write")]),
            ),
            ("state/commit", commit),
            (release.as_str(), json!({})),
        ];
        for ((path, body), least) in steps.into_iter().zip(&mut least) {
            let before = wire.statements();
            post(&writer, path, body).await.ok();
            *least = (*least).min(wire.statements() - before);
        }
    }
    // Beginning and ending a transaction are among those of the second, for whose last three others wait, as they do for the last
    // one of the first and of the third.
    assert_eq!(least, [2, 11, 2]);
}
