//! `kl init` as far as it goes without a server.

use crate::sealed::{Sealed, URL};

#[test]
fn init_writes_the_file_and_the_block_and_reports_a_dead_connection() {
    let sealed = Sealed::new();
    let done = sealed.kl(&["init", URL]).expect(6);
    let stdout = done.stdout();
    assert!(
        stdout.starts_with("terraform {\n  backend \"http\" {\n"),
        "{stdout}"
    );
    assert_eq!(stdout.matches(URL).count(), 3, "{stdout}");
    assert!(
        done.stderr()
            .contains("is written, but the connection does not work yet")
    );
    assert_eq!(
        sealed.setting("state", &[]),
        ("prod".into(), ".kl.toml:2".into())
    );
    assert_eq!(sealed.setting("token", &[]).1, ".kl.toml:5");
}

#[test]
fn the_block_is_one_that_kl_reads_back() {
    let sealed = Sealed::new();
    let block = sealed.kl(&["init", URL]).expect(6).stdout();
    std::fs::remove_file(sealed.path(".kl.toml")).unwrap();
    let sealed = sealed.file("backend.tf", block);
    assert_eq!(
        sealed.setting("state", &[]),
        ("prod".into(), "backend.tf:3".into())
    );
}

#[test]
fn a_file_that_is_there_stays_unless_forced() {
    let sealed = Sealed::new().file(".kl.toml", "protocol = \"http\"\n");
    sealed
        .kl(&["init", URL])
        .expect(1)
        .says("exists already")
        .says("--force");
    assert_eq!(sealed.setting("protocol", &[]).0, "http");
    // Even one that cannot be read.
    let sealed = sealed.file(".kl.toml", "nonsense = 1\n");
    sealed
        .kl(&["init", URL, "--force", "--token-env", "PROD_TOKEN"])
        .expect(6);
    let text = std::fs::read_to_string(sealed.path(".kl.toml")).unwrap();
    assert!(text.contains("token_env = \"PROD_TOKEN\""), "{text}");
}

#[test]
fn init_without_an_address_takes_terraforms() {
    let sealed = Sealed::new().file(
        ".terraform/terraform.tfstate",
        format!(r#"{{"backend":{{"type":"http","config":{{"address":"{URL}"}}}}}}"#),
    );
    sealed.kl(&["init"]).expect(6);
    assert_eq!(sealed.setting("state", &[]).1, ".kl.toml:2");
    Sealed::new()
        .kl(&["init"])
        .expect(2)
        .says("no server is configured");
}
