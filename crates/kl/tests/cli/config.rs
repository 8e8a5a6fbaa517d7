//! Where a setting comes from, and which source wins.

use crate::sealed::{Sealed, URL};

const OTHER: &str = "https://other.example/v1/states/ws_aaaaaaaaaaaa/env_aaaaaaaaaaaa/other";

#[test]
fn nothing_configured_is_shown_as_such_and_is_no_error() {
    let sealed = Sealed::new();
    assert_eq!(sealed.setting("server", &[]), ("-".into(), "-".into()));
    assert_eq!(
        sealed.setting("protocol", &[]),
        ("auto".into(), "default".into())
    );
    let table = sealed.kl(&["config"]).expect(0).stdout();
    assert!(table.starts_with("SETTING"), "{table}");
    assert!(
        table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );
}

#[test]
fn flags_beat_the_environment_beats_the_file_beats_terraform() {
    let block = |name: &str| {
        format!(
            "terraform {{\n  backend \"http\" {{\n    address = \"https://h/v1/states/ws_0123456789ab/env_0123456789ab/{name}\"\n  }}\n}}\n"
        )
    };
    let sealed = Sealed::new().file("main.tf", block("from-block"));
    assert_eq!(
        sealed.setting("state", &[]),
        ("from-block".into(), "main.tf:3".into())
    );

    let sealed = sealed.file(
        ".terraform/terraform.tfstate",
        r#"{"version":3,"backend":{"type":"http","config":{"address":"https://h/v1/states/ws_0123456789ab/env_0123456789ab/from-init","password":null}}}"#,
    );
    assert_eq!(
        sealed.setting("state", &[]),
        ("from-init".into(), ".terraform/terraform.tfstate".into())
    );

    let sealed = sealed.file(".kl.toml", "state = \"from-file\"\n");
    assert_eq!(
        sealed.setting("state", &[]),
        ("from-file".into(), ".kl.toml:1".into())
    );
    // The parts that the file leaves open still come from Terraform.
    assert_eq!(sealed.setting("server", &[]).0, "https://h");

    let sealed = sealed.variable("KL_STATE", "from-env");
    assert_eq!(
        sealed.setting("state", &[]),
        ("from-env".into(), "environment KL_STATE".into())
    );
    assert_eq!(
        sealed.setting("state", &["--state", "from-flag"]),
        ("from-flag".into(), "flag --state".into())
    );
}

#[test]
fn the_nearest_file_upward_counts_and_only_that_one() {
    let sealed = Sealed::new()
        .configured()
        .file("deep/.kl.toml", "protocol = \"kl\"\n")
        .file("deep/er/x", "");
    let (value, origin) = sealed.setting("protocol", &["--chdir", "deep/er"]);
    assert_eq!(value, "kl");
    assert!(origin.ends_with("deep/.kl.toml:1"), "{origin}");
    assert_eq!(sealed.setting("state", &["--chdir", "deep/er"]).0, "-");
    assert_eq!(sealed.setting("state", &[]).0, "prod");
}

#[test]
fn a_whole_address_is_taken_apart_wherever_it_is_given() {
    let flag = Sealed::new();
    assert_eq!(
        flag.setting("server", &["--state-url", OTHER]),
        ("https://other.example".into(), "flag --state-url".into())
    );
    let variable = Sealed::new().configured().variable("KL_STATE_URL", OTHER);
    assert_eq!(
        variable.setting("environment", &[]),
        ("env_aaaaaaaaaaaa".into(), "environment KL_STATE_URL".into())
    );
}

#[test]
fn a_state_argument_is_a_name_or_a_whole_address_in_any_position() {
    // The port of the address in the error says which state was meant.
    let sealed = Sealed::new().configured();
    let url = "http://127.0.0.1:2/v1/states/ws_aaaaaaaaaaaa/env_aaaaaaaaaaaa/other";
    sealed
        .kl(&["status", url])
        .expect(6)
        .says("`other`")
        .says("127.0.0.1:2");
    sealed
        .kl(&["--quiet", "status", "named"])
        .expect(6)
        .says("`named`")
        .says("127.0.0.1:1");
    sealed
        .kl(&["status", "named", "-quiet"])
        .expect(6)
        .says("`named`");
    sealed
        .kl(&["history", "--limit", "3", "named"])
        .expect(6)
        .says("`named`");
    sealed
        .kl(&["status", "--state", "flagged"])
        .expect(6)
        .says("`flagged`");
}

#[test]
fn two_names_for_one_thing_on_one_level_are_refused() {
    let sealed = Sealed::new().configured();
    sealed
        .kl(&["status", "one", "--state", "two"])
        .expect(2)
        .says("flag --state and argument name two different states");
    sealed
        .kl(&["status", "--state-url", URL, "--state", "two"])
        .expect(2);
    Sealed::new()
        .variable("KL_STATE_URL", URL)
        .variable("KL_STATE", "two")
        .kl(&["config"])
        .expect(2)
        .says("environment KL_STATE and environment KL_STATE_URL name two different states");
    let agreeing = Sealed::new()
        .variable("KL_STATE_URL", URL)
        .variable("KL_STATE", "prod");
    assert_eq!(agreeing.setting("state", &[]).0, "prod");
}

#[test]
fn a_mistake_in_the_file_names_file_line_and_nearest_key() {
    let refused = |text: &str| {
        Sealed::new()
            .file(".kl.toml", text)
            .kl(&["config"])
            .expect(2)
    };
    refused("\nprotocol = \"kl\"\n\n[auth]\ntoken_evn = \"X\"\n")
        .says("error: .kl.toml:5: unknown key `token_evn` in [auth]")
        .says("hint: the nearest known key is `token_env` in [auth]");
    refused("protocol = \"grpc\"\n").says(".kl.toml:1: `grpc` is none of auto, http, kl");
    refused("state_url = \"https://h/prod\"\n")
        .says(".kl.toml:1: `https://h/prod` is not the address of a state");
    refused("protocol = \n").says(".kl.toml:1: ");
    let from_below = Sealed::new()
        .file(".kl.toml", "x = 1\n")
        .file("below/x", "")
        .kl(&["config", "--chdir", "below"])
        .expect(2);
    assert!(
        from_below
            .stderr()
            .contains("project/.kl.toml:1: unknown key `x`"),
        "{from_below:?}"
    );
}

#[test]
fn a_mistake_in_a_variable_names_the_variable() {
    Sealed::new()
        .variable("KL_PROTOCOL", "grpc")
        .kl(&["config"])
        .expect(2)
        .says("KL_PROTOCOL: `grpc` is none of");
    Sealed::new()
        .variable("KL_ENVIRONMENT", "prod")
        .kl(&["config"])
        .expect(2)
        .says("KL_ENVIRONMENT: ");
    // An empty variable is one that is not set.
    Sealed::new()
        .variable("KL_PROTOCOL", "")
        .kl(&["config"])
        .expect(0);
}

#[test]
fn a_token_is_masked_wherever_it_comes_from() {
    let secret = "klp_mellon";
    let sealed = Sealed::new().configured().variable("KL_TOKEN", secret);
    assert_eq!(
        sealed.setting("token", &[]),
        ("********".into(), "environment KL_TOKEN".into())
    );
    let done = sealed.kl(&["config"]).expect(0);
    assert!(!format!("{}{}", done.stdout(), done.stderr()).contains(secret));

    let sealed = Sealed::new().file(
        ".terraform/terraform.tfstate",
        format!(r#"{{"backend":{{"type":"http","config":{{"address":"{URL}","password":"{secret}"}}}}}}"#),
    );
    assert_eq!(
        sealed.setting("token", &[]),
        ("********".into(), ".terraform/terraform.tfstate".into())
    );
    let done = sealed.kl(&["config"]).expect(0);
    assert!(!format!("{}{}", done.stdout(), done.stderr()).contains(secret));
}

#[test]
fn a_token_in_the_file_is_refused_without_being_repeated() {
    let token = format!("kls_{}", "Ab3".repeat(17));
    for text in [
        format!("token = \"{token}\"\n"),
        format!("[auth]\ntoken_command = [\"echo\", \"{token}\"]\n"),
        "[auth]\ntoken = \"anything\"\n".to_owned(),
    ] {
        let done = Sealed::new()
            .file(".kl.toml", text)
            .kl(&["status"])
            .expect(2);
        assert!(
            done.stderr()
                .contains("a token does not belong into this file"),
            "{done:?}"
        );
        assert!(done.stderr().contains("token_env"), "{done:?}");
        assert!(!done.stderr().contains(&token), "{done:?}");
    }
}

#[test]
fn a_token_that_git_tracks_is_refused_and_said_to_be_leaked() {
    let sealed = Sealed::new()
        .file(".kl.toml", "token = \"x\"\n")
        .file("token", "klp_mellon\n");
    sealed.git(&["init", "-q"]);
    let untracked = sealed.kl(&["config"]).expect(2);
    assert!(
        !untracked.stderr().contains("tracked by git"),
        "{untracked:?}"
    );
    sealed.git(&["add", ".kl.toml", "token"]);
    sealed.kl(&["config"]).expect(2).says("tracked by git");

    let sealed = sealed.configured();
    sealed
        .kl(&["whoami", "--token-file", "token"])
        .expect(2)
        .says("tracked by git, and a token in a committed file is a leaked token");
}

#[test]
fn the_token_itself_is_no_flag() {
    Sealed::new()
        .configured()
        .kl(&["status", "--token", "klp_mellon"])
        .expect(2)
        .says("a token is not taken on the command line")
        .says("KL_TOKEN");
}

#[test]
fn a_token_anywhere_on_the_command_line_is_refused_and_not_repeated() {
    let token = format!("klp_{}", "Ab3".repeat(17));
    let sealed = Sealed::new().configured();
    for arguments in [
        vec!["status".to_owned(), token.clone()],
        vec!["status".to_owned(), format!("--no-such-flag={token}")],
        vec![
            "whoami".to_owned(),
            "--server".to_owned(),
            format!("https://kl:{token}@host"),
        ],
        vec!["token".to_owned(), "revoke".to_owned(), format!("x{token}")],
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let done = sealed.kl(&arguments).expect(2);
        assert!(!done.stderr().contains(&token), "{done:?}");
    }
    // The one place for it: it leaked, and is to end. Unreachable, so it got that far.
    let done = sealed.kl(&["token", "revoke", &token]).expect(6);
    assert!(!done.stderr().contains(&token), "{done:?}");
}
