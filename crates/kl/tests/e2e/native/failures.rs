//! What is on record when an apply does not get to its end.

use super::site::{Site, done};

const TWO: &str = "resource \"terraform_data\" \"first\" {}\nresource \"terraform_data\" \"second\" {\n  input = terraform_data.first.id\n  provisioner \"local-exec\" {\n    command = \"COMMAND\"\n  }\n}\n";

fn two(command: &str) -> Site {
    Site::new(&[("two.tf", &TWO.replace("COMMAND", command))])
}

/// Comes to its end only if the test lets it.
const ENDLESS: &str = "touch begun; while [ ! -e go ]; do sleep 0.1; done";

fn tainted(site: &Site, address: &str) -> bool {
    site.0.json(&["show", address])["tainted"] == true
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn what_succeeded_is_recorded_and_what_failed_is_reported() {
    let site = two("exit 3");
    site.kl(&["apply", "-f", "two.tf", "--auto-approve"])
        .expect(1)
        .says("local-exec provisioner error")
        .says("recorded: version")
        .says("what it uploaded is on record");
    assert_eq!(
        site.addresses(),
        ["terraform_data.first", "terraform_data.second"]
    );
    assert!(tainted(&site, "terraform_data.second"));
    assert!(!tainted(&site, "terraform_data.first"));
    let status = site.0.json(&["status"]);
    assert!(status["holders"].as_array().unwrap().is_empty(), "{status}");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn an_interrupt_ends_terraform_once_and_records_what_was_built() {
    let site = two(ENDLESS);
    let apply = site.spawn(&["apply", "-f", "two.tf", "--auto-approve"]);
    site.until("the provisioner", || site.0.path("begun").exists());
    signal("-INT", apply.id());
    done(apply)
        .expect(1)
        .says("was stopped")
        .says("recorded: version");
    assert!(tainted(&site, "terraform_data.second"));
    assert!(
        site.0.json(&["status"])["holders"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn terraform_outlives_kl_and_records_what_it_builds() {
    let site = two(ENDLESS);
    let mut apply = site.spawn(&["apply", "-f", "two.tf", "--auto-approve"]);
    site.until("the provisioner", || site.0.path("begun").exists());
    apply.kill().unwrap();
    apply.wait().unwrap();
    let status = site.0.json(&["status"]);
    assert_eq!(status["runs"].as_array().unwrap().len(), 1, "{status}");
    site.write("go", "");
    site.until("an upload", || site.0.json(&["status"])["head"].is_object());
    assert_eq!(
        site.addresses(),
        ["terraform_data.first", "terraform_data.second"]
    );

    let run = status["runs"][0]["id"].as_str().unwrap();
    let text = site.kl(&["status"]).expect(0).stdout();
    assert!(text.contains(run) && text.contains("under way"), "{text}");
    site.kl(&["apply", "abort", run, "--reason", "its kl is gone"])
        .expect(0);
    assert!(
        site.0.json(&["status"])["holders"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    // It ended without its own word, so what it claimed is looked at first.
    site.kl(&["apply", "-f", "two.tf", "--auto-approve", "-refresh=false"])
        .expect(2)
        .says("is unsettled");
    site.apply(&["-f", "two.tf"]).says("is unsettled");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_terraform_that_is_killed_is_reported_and_the_run_ended() {
    let site = two(ENDLESS);
    let apply = site.spawn(&["apply", "-f", "two.tf", "--auto-approve"]);
    site.until("the provisioner", || site.0.path("begun").exists());
    signal("-KILL", child_of(&apply));
    done(apply).expect(1).says("was killed");
    site.write("go", "");
    assert!(
        site.0.json(&["status"])["holders"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

/// The Terraform that a kl started.
fn child_of(kl: &std::process::Child) -> u32 {
    let mut find = std::process::Command::new("pgrep");
    find.args(["-P", &kl.id().to_string()]);
    let found = find.output().unwrap();
    String::from_utf8(found.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

fn signal(signal: &str, process: u32) {
    let mut kill = std::process::Command::new("kill");
    kill.args([signal, &process.to_string()]);
    assert!(kill.status().unwrap().success());
}
