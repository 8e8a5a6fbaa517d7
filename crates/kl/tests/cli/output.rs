//! What comes out, and where.

use std::process::Stdio;

use crate::sealed::Sealed;

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let sealed = Sealed::new();
    for arguments in [
        &["completions", "bash"][..],
        &["reference"],
        &["version"],
        &["config"],
    ] {
        let mut child = sealed
            .kl_command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let done = child.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{arguments:?}: {done:?}");
        assert_eq!(done.stderr, b"", "{arguments:?}");
    }
}

#[test]
fn completions_exist_for_every_shell() {
    let sealed = Sealed::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = sealed.kl(&["completions", shell]).expect(0).stdout();
        assert!(script.contains("rollback"), "{shell}");
    }
    // And the shell can read it.
    let sealed = sealed.file(
        "script",
        Sealed::new().kl(&["completions", "bash"]).stdout(),
    );
    let checked = sealed
        .command("bash")
        .args(["-n", "script"])
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn help_has_an_example_for_every_command_and_fits_80_columns() {
    let sealed = Sealed::new();
    for line in [
        "init",
        "config",
        "whoami",
        "list",
        "status",
        "history",
        "pull",
        "show",
        "state list",
        "state show",
        "state pull",
        "import snapshot",
        "import archive",
        "export state",
        "jobs",
        "tag set",
        "tag list",
        "tag unset",
        "archive verify",
        "archive show",
        "archive extract",
        "archive diff",
        "rollback",
        "unlock",
        "env list",
        "env show",
        "env create",
        "env set",
        "token create",
        "token list",
        "token revoke",
        "member list",
        "member create",
        "member set",
        "member remove",
        "audit",
        "undelete",
        "completions",
        "version",
    ] {
        let mut arguments: Vec<&str> = line.split(' ').collect();
        arguments.push("--help");
        let help = sealed.kl(&arguments).expect(0).stdout();
        assert!(help.contains("Example: kl "), "{line}: {help}");
        for text in help.lines() {
            assert!(text.chars().count() <= 80, "{line}: {text}");
        }
    }
}

#[test]
fn the_reference_tells_of_every_command_and_every_exit_code() {
    let reference = Sealed::new().kl(&["reference"]).expect(0).stdout();
    for heading in [
        "kl config",
        "kl state list",
        "kl import snapshot",
        "kl token revoke",
    ] {
        assert!(
            reference.contains(&format!("\n## {heading}\n")),
            "{heading}"
        );
    }
    assert!(
        !reference.contains("## kl reference"),
        "hidden commands stay hidden"
    );
    assert!(!reference.contains("\n\n\n"));
    assert!(reference.contains("| 6 | the server is unreachable"));
}

#[test]
fn the_committed_reference_is_what_kl_prints() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    let committed = std::fs::read_to_string(path).unwrap();
    let printed = Sealed::new().kl(&["reference"]).expect(0).stdout();
    assert!(
        committed == printed,
        "docs/cli.md is stale: run `cargo xtask gen`"
    );
}

#[test]
fn no_colour_without_a_terminal_and_errors_survive_quiet() {
    let done = Sealed::new().configured().kl(&["-q", "status"]).expect(6);
    assert!(!done.stderr().contains('\x1b'), "{done:?}");
    assert!(done.stderr().starts_with("error: "));
}

#[test]
fn version_is_one_line_or_json() {
    let sealed = Sealed::new();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        sealed.kl(&["version"]).expect(0).stdout(),
        format!("kl {version}\n")
    );
    let json = sealed.kl(&["version", "--json"]).expect(0).stdout();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["version"], version);
}

#[test]
fn unlock_and_its_like_do_not_ask_where_nobody_can_answer() {
    // No server, so it ends before the question; what counts is that it does not hang.
    Sealed::new().configured().kl(&["unlock"]).expect(6);
}
