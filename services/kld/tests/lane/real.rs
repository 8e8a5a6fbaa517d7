//! The real terraform against real replicas.

use std::time::Duration;

use protocol::{Code, Role};
use serde_json::json;
use store::testing::Wire;

use super::documents::{Doc, case};
use super::stage::Stage;
use super::terraform::Module;
use crate::harness::Setup;

const TWO: &str = r#"
resource "terraform_data" "a" {
  input = "1"
}
resource "terraform_data" "b" {
  input = terraform_data.a.output
}
output "oa" {
  value = terraform_data.a.output
}
"#;

/// S10, S42: apply, forced push, rollback, and the applies that follow.
#[tokio::test(flavor = "multi_thread")]
async fn terraform_goes_on_after_a_forced_push_and_after_a_rollback() {
    let stage = Stage::start().await;
    let boss = stage.client(Role::Maintainer).await;
    let module = Module::new(&boss, "prod", TWO).await;
    module.apply().await.ok();
    let old = module.run(&["state", "pull"]).await.ok();
    for value in ["2", "3"] {
        module.configure(&TWO.replace("\"1\"", &format!("{value:?}")));
        module.apply().await.ok();
    }
    std::fs::write(module.path().join("old.tfstate"), old).unwrap();
    module.run(&["state", "push", "old.tfstate"]).await.fails();
    module
        .run(&["state", "push", "-force", "old.tfstate"])
        .await
        .ok();
    let versions = boss.versions("prod").await;
    assert!(
        versions.last().unwrap().forced
            && versions.iter().rev().skip(1).all(|version| !version.forced)
    );
    module.apply().await.ok();

    let before = boss.versions("prod").await.len();
    let first = i64::try_from(before).unwrap() - 1;
    boss.roll_back("prod", first).await.ok();
    module.configure(&TWO.replace("\"1\"", "\"4\""));
    module.apply().await.ok();
    module.run(&["plan", "-detailed-exitcode"]).await.ok();
    let versions = boss.versions("prod").await;
    assert_eq!(versions.len(), before + 2);
    assert_eq!(
        versions[before + 1].serial,
        versions[before].serial.map(|serial| serial + 1)
    );
    // Every version is as terraform wrote it: no copy of its bytes is kept.
    assert_eq!(
        stage.count("SELECT count(*) FROM version_documents").await,
        0
    );
    module.run(&["destroy", "-auto-approve"]).await.ok();
    assert_eq!(boss.status("prod").await.head.unwrap().instance_count, 0);
}

/// S03, S08: waiting for a lock, and an administrative one.
#[tokio::test(flavor = "multi_thread")]
async fn terraform_waits_for_a_lock_and_names_who_holds_it() {
    let stage = Stage::start().await;
    let (ann, boss) = (stage.writer().await, stage.client(Role::Maintainer).await);
    let module = Module::new(&ann, "prod", TWO).await;
    module.apply().await.ok();
    boss.lock("prod", "colleague").await.ok();
    let release = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        boss.unlock("prod", "colleague").await.ok();
    };
    let (plan, ()) = tokio::join!(module.run(&["plan", "-lock-timeout=60s"]), release);
    plan.ok();

    let message = json!({ "message": "frozen" });
    boss.send_json("POST", "prod/admin-lock", message)
        .await
        .ok();
    for arguments in [
        &["plan"][..],
        &["apply", "-auto-approve"],
        &["state", "rm", "terraform_data.b"],
    ] {
        let text = module.run(arguments).await.fails();
        assert!(text.contains("administrative lock"), "{text}");
    }
    module.run(&["output", "-raw", "oa"]).await.ok();
    boss.send("DELETE", "prod/admin-lock").await.ok();
    module.run(&["state", "rm", "terraform_data.b"]).await.ok();
}

/// S01, S05: a killed apply leaves its lock, and `force-unlock` clears it.
#[tokio::test(flavor = "multi_thread")]
async fn terraform_force_unlock_clears_the_lock_of_a_killed_apply() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let slow = format!(
        "{TWO}\nresource \"terraform_data\" \"slow\" {{\n  provisioner \"local-exec\" {{\n    command = \"sleep 60\"\n  }}\n}}\n"
    );
    let module = Module::new(&ann, "prod", &slow).await;
    let mut apply = module.start(&["apply", "-auto-approve"]);
    while ann.read("prod/status").await.status != 200 || ann.status("prod").await.holders.is_empty()
    {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    apply.kill().await.unwrap();
    let holder = ann.status("prod").await.holders.remove(0);
    assert_eq!(holder.operation, "OperationTypeApply");
    let other = stage.writer().await;
    other.lock("prod", "other").await.refused(Code::StateLocked);
    module.configure(TWO);
    module.apply().await.fails();
    // The ID is not sent; whatever is typed, the lock that is there ends.
    module
        .run(&[
            "force-unlock",
            "-force",
            "00000000-0000-4000-8000-000000000000",
        ])
        .await
        .ok();
    module.apply().await.ok();
    assert_eq!(stage.audited("lock.break").await.len(), 1);
}

/// S28: the token ends during an apply; two commands with a new one make it whole.
#[tokio::test(flavor = "multi_thread")]
async fn terraform_recovers_from_a_token_that_ended_during_an_apply() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let slow = format!(
        "{TWO}\nresource \"terraform_data\" \"slow\" {{\n  provisioner \"local-exec\" {{\n    command = \"while [ ! -e go ]; do sleep 0.1; done\"\n  }}\n}}\n"
    );
    let module = Module::new(&ann, "prod", &slow).await;
    let mut apply = module.start(&["apply", "-auto-approve"]);
    while ann.read("prod/status").await.status != 200 || ann.status("prod").await.holders.is_empty()
    {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let rest = format!("/tokens/{}", ann.token_id);
    super::stage::Reply::of(stage.admin_request("DELETE", &rest))
        .await
        .ok();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
    loop {
        let asked = tokio::time::Instant::now();
        if ann.read("prod").await.status == 401 {
            break;
        }
        assert!(asked < deadline);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    std::fs::write(module.path().join("go"), "").unwrap();
    assert!(!apply.wait().await.unwrap().success());
    assert!(module.path().join("errored.tfstate").exists());

    let boss = stage.client(Role::Maintainer).await;
    let module = Module {
        token: boss.token.clone(),
        ..module
    };
    module
        .run(&[
            "force-unlock",
            "-force",
            "00000000-0000-4000-8000-000000000000",
        ])
        .await
        .ok();
    module.run(&["state", "push", "errored.tfstate"]).await.ok();
    assert_eq!(boss.status("prod").await.head.unwrap().instance_count, 3);
    module.run(&["plan", "-detailed-exitcode"]).await.ok();
}

/// The commands that need no lock, and a data source that reads another's outputs. Each must stop.
async fn every_reader_stops(module: &Module, remote: &Module, why: &str) {
    for arguments in [
        &["plan", "-lock=false"][..],
        &["output"],
        &["state", "pull"],
    ] {
        let run = module.run(arguments).await;
        assert!(!run.success, "{why}: {arguments:?} went on:\n{}", run.text);
    }
    let run = remote.run(&["plan", "-lock=false"]).await;
    assert!(
        !run.success,
        "{why}: terraform_remote_state went on:\n{}",
        run.text
    );
}

/// S22 with the real client.
#[tokio::test(flavor = "multi_thread")]
async fn terraform_never_takes_trouble_for_an_empty_state() {
    let wire = Wire::start().await;
    let stage = Stage::start_with(Setup {
        database_address: Some(wire.address),
        acquire_timeout: Duration::from_secs(1),
        ..Setup::default()
    })
    .await;
    let boss = stage.client(Role::Maintainer).await;
    let stranger = stage.client(Role::Viewer).await;
    boss.write("prod", case("odd-bytes.json")).await.ok();
    boss.write("rows", Doc::of_size(1, 600).bytes()).await.ok();
    boss.write("remote", Doc::new(1).bytes()).await.ok();
    let remote_of = |module: &Module, token: &str, name: &str| {
        format!(
            "data \"terraform_remote_state\" \"x\" {{\n  backend = \"http\"\n  config = {{\n    address = \"{}\"\n    username = \"kl\"\n    password = \"{token}\"\n  }}\n}}\n",
            module.url.replace("/remote", &format!("/{name}"))
        )
    };
    let remote = Module::new(&boss, "remote", "").await;
    let module = Module::new(&boss, "rows", TWO).await;
    remote.configure(&remote_of(&remote, &boss.token, "rows"));
    module.run(&["output"]).await.ok();
    remote.run(&["plan", "-lock=false"]).await.ok();

    wire.cut();
    let away = [
        module.run(&["plan", "-lock=false"]).await,
        module.run(&["state", "pull"]).await,
    ];
    for run in away {
        run.fails();
    }
    wire.mend();

    // Not the caller's, under a real name and a made-up one; another spelling.
    for name in ["rows", "made-up", "ROWS"] {
        let token = if name == "ROWS" {
            &boss.token
        } else {
            &stranger.token
        };
        let url = module.url.replace("/rows", &format!("/{name}"));
        let other = Module {
            directory: tempfile::tempdir().unwrap(),
            url,
            token: token.clone(),
        };
        other.configure(TWO);
        other.run(&["init", "-input=false"]).await.fails();
        remote.configure(&remote_of(&remote, token, name));
        remote.run(&["plan", "-lock=false"]).await.fails();
    }

    // The token has run out.
    let expired = stage.client(Role::Maintainer).await;
    sqlx::query("UPDATE credentials SET created_at = created_at - interval '2 days', expires_at = clock_timestamp() - interval '1 second' WHERE token_id = $1")
        .bind(&expired.token_id)
        .execute(stage.app.database.owner())
        .await
        .unwrap();
    remote.configure(&remote_of(&remote, &expired.token, "rows"));
    let module = Module {
        token: expired.token.clone(),
        ..module
    };
    every_reader_stops(&module, &remote, "an expired token").await;
    let module = Module {
        token: boss.token.clone(),
        ..module
    };

    // A row is lost.
    stage
        .tamper("DELETE FROM instances WHERE name = 'r00300'")
        .await;
    remote.configure(&remote_of(&remote, &boss.token, "rows"));
    every_reader_stops(&module, &remote, "a lost row").await;
    // The kept bytes are altered.
    stage
        .tamper("UPDATE version_documents SET body = set_byte(body, 40, get_byte(body, 40) # 1)")
        .await;
    let kept = Module {
        url: module.url.replace("/rows", "/prod"),
        ..module
    };
    remote.configure(&remote_of(&remote, &boss.token, "prod"));
    // What this replica remembers is still right, so it is made to forget: its memory must agree with the version's digest.
    stage.tamper("UPDATE state_versions SET sha256 = decode(repeat('00', 32), 'hex') WHERE form = 'kept'").await;
    every_reader_stops(&kept, &remote, "an altered document").await;

    // The workspace is suspended.
    let suspend = stage
        .app
        .request("PATCH", &format!("/v1/workspaces/{}", stage.workspace));
    super::stage::Reply::of(
        suspend
            .bearer_auth(&stage.app.operator)
            .json(&json!({ "lifecycle": "suspended" })),
    )
    .await
    .ok();
    remote.configure(&remote_of(&remote, &boss.token, "remote"));
    every_reader_stops(
        &Module {
            url: kept.url.replace("/prod", "/remote"),
            ..kept
        },
        &remote,
        "a suspended workspace",
    )
    .await;
}

/// S13: terraform plans on a large state.
#[tokio::test(flavor = "multi_thread")]
async fn terraform_reads_a_large_state() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let padding = "p".repeat(500 * 1024);
    let mut document = Doc::new(1);
    document.resources.clear();
    for n in 0..32 {
        document
            .resources
            .insert(("a".to_owned(), Some(n)), padding.clone());
    }
    let bytes = document.bytes();
    assert!(bytes.len() > 30_000_000, "{}", bytes.len());
    ann.write("prod", bytes).await.ok();
    let configuration = "resource \"terraform_data\" \"a\" {\n  count = 32\n  input = file(\"padding\")\n}\noutput \"oa\" {\n  value = \"1\"\n}\n";
    let module = Module::new(&ann, "prod", "").await;
    std::fs::write(module.path().join("padding"), &padding).unwrap();
    module.configure(configuration);
    module.run(&["plan", "-detailed-exitcode"]).await.ok();
}
