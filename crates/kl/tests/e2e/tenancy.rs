//! `kl whoami`, `kl env`, `kl token`.

use std::time::{Duration, Instant};

use crate::stack::{Project, stack};

#[test]
#[ignore = "needs cargo xtask stack"]
fn whoami_names_principal_workspace_and_role() {
    let project = Project::new();
    let view = project.json(&["whoami"]);
    assert_eq!(view["workspace"], stack("WORKSPACE"));
    let text = project.kl(&["whoami"]).expect(0).stdout();
    assert!(text.contains("writer"), "{text}");
    assert!(!text.contains(&stack("TOKEN")), "{text}");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn an_environment_is_made_changed_and_listed() {
    let admin = Project::with_token(&stack("ADMIN_TOKEN"));
    let name = format!("env-{}", admin.state);
    let made = admin.json(&[
        "env",
        "create",
        &name,
        "--require-locks",
        "--lock-limit",
        "2h",
    ]);
    assert_eq!(made["require_locks"], true);
    assert_eq!(made["terraform_lock_ttl_seconds"], 7_200);
    let id = made["id"].as_str().unwrap();

    let set = admin.json(&[
        "env",
        "set",
        id,
        "--require-locks",
        "false",
        "--lock-limit",
        "none",
    ]);
    assert_eq!(set["require_locks"], false);
    assert_eq!(set.get("terraform_lock_ttl_seconds"), None);
    assert_eq!(admin.json(&["env", "show", id])["name"], name);
    let table = admin.kl(&["env", "list"]).expect(0).stdout();
    assert!(table.contains(&name), "{table}");

    let writer = Project::new();
    writer.kl(&["env", "create", "nope"]).expect(5);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_token_is_printed_once_works_and_ends_when_revoked() {
    let admin = Project::with_token(&stack("ADMIN_TOKEN"));
    let made = admin
        .kl(&["token", "create", "--expires", "1d", "--description", "e2e"])
        .expect(0);
    let token = made.stdout().trim().to_owned();
    assert!(token.starts_with("kl"), "a token alone on stdout");
    assert!(!made.stderr().contains(&token));
    let id = &token[4..16];

    let user = Project::with_token(&token);
    assert_eq!(user.json(&["whoami"])["token_id"], id);
    let table = admin.kl(&["token", "list"]).expect(0).stdout();
    assert!(table.contains(id) && !table.contains(&token), "{table}");

    admin.kl(&["token", "revoke", id]).expect(0);
    ends(&user);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_token_goes_to_a_private_file_and_a_leaked_one_ends_by_itself() {
    let admin = Project::with_token(&stack("ADMIN_TOKEN"));
    let made = admin
        .kl(&[
            "token",
            "create",
            "--expires",
            "1d",
            "-o",
            "token",
            "--json",
        ])
        .expect(0);
    let token = std::fs::read_to_string(admin.path("token")).unwrap();
    assert!(!made.stdout().contains(token.trim()));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = admin.path("token").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let user = Project::with_token(token.trim());
    user.kl(&["whoami"]).expect(0);

    admin.file(
        "log",
        format!("curl -H 'Authorization: Bearer {}'\n", token.trim()),
    );
    let done = admin
        .kl_command(&["token", "revoke", "--leaked"])
        .env_remove("KL_TOKEN")
        .stdin(std::fs::File::open(admin.path("log")).unwrap())
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    ends(&user);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_member_gets_a_token_and_loses_its_grants() {
    let admin = Project::with_token(&stack("ADMIN_TOKEN"));
    let name = format!("ci-{}", admin.state);
    let grant = format!("reader@{}", stack("ENV"));
    let made = admin.json(&["member", "create", &name, "--service", "--grant", &grant]);
    assert_eq!(made["kind"], "service");
    let token = admin
        .kl(&["token", "create", "--principal", &name, "--expires", "1d"])
        .expect(0)
        .stdout();
    let service = Project::with_token(token.trim());
    service.kl(&["list"]).expect(0);
    service.kl(&["token", "list"]).expect(5);

    let set = admin.json(&[
        "member", "set", &name, "--grant", "viewer", "--grant", &grant,
    ]);
    assert_eq!(set["grants"].as_array().unwrap().len(), 2);
    let table = admin.kl(&["member", "list"]).expect(0).stdout();
    assert!(table.contains(&name), "{table}");
    admin.kl(&["member", "remove", &name]).expect(0);
    within_five_seconds("the grants are still there", || {
        service.json(&["whoami"])["grants"] == serde_json::json!([])
    });
    admin
        .kl(&["member", "remove", "nobody"])
        .expect(1)
        .says("kl member list");

    let log = admin.kl(&["audit", "--limit", "0"]).expect(0).stdout();
    assert!(log.contains("member.create"), "{log}");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn the_workspace_need_not_be_named() {
    let project = Project::new();
    std::fs::remove_file(project.path(".kl.toml")).unwrap();
    let done = project
        .kl_command(&["init", "--state", "found-by-its-token"])
        .args(["--server", &stack("URL"), "--environment", &stack("ENV")])
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let config = std::fs::read_to_string(project.path(".kl.toml")).unwrap();
    assert!(config.contains(&stack("WORKSPACE")), "{config}");
}

#[track_caller]
fn ends(user: &Project) {
    within_five_seconds("the token still works", || {
        user.kl(&["whoami"]).0.status.code() == Some(5)
    });
}

/// Revocation counts everywhere after five seconds, on the other replicas, too.
#[track_caller]
fn within_five_seconds(complaint: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let asked = Instant::now();
        if holds() {
            return;
        }
        assert!(asked < deadline, "{complaint}");
        std::thread::sleep(Duration::from_millis(200));
    }
}
