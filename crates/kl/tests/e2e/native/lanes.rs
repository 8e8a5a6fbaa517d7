//! Which lane is taken, and what the other one does.

use super::site::Site;

fn site() -> Site {
    Site::new(&[
        (
            "a.tf",
            "resource \"terraform_data\" \"a\" {\n  input = 1\n}\n",
        ),
        (
            "b.tf",
            "resource \"terraform_data\" \"b\" {\n  input = 1\n}\n",
        ),
    ])
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn http_is_what_plain_terraform_does_with_the_same_targets() {
    let site = site();
    let before = site.tree();
    let done = site
        .kl(&[
            "apply",
            "--protocol",
            "http",
            "-f",
            "a.tf",
            "--auto-approve",
        ])
        .expect(0);
    let done = done
        .says("lane: http")
        .says("because the protocol is set to `http`");
    assert!(
        done.stdout().contains("Apply complete!"),
        "{}",
        done.stdout()
    );
    assert_eq!(site.addresses(), ["terraform_data.a"]);
    assert_eq!(site.tree(), before);
    let versions = site.0.json(&["history"])["versions"].clone();
    assert_eq!(versions[0]["source"], "terraform");

    site.kl(&["apply", "--auto-approve"])
        .expect(0)
        .says("nothing was selected");
    assert_eq!(site.addresses(), ["terraform_data.a", "terraform_data.b"]);
}

/// A module that is not installed may hold anything.
const UNKNOWN: &str = "module \"far\" {\n  source = \"registry.example.com/x/y/z\"\n}\n";

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_scope_that_cannot_be_proven_is_refused_with_its_reason_unless_falling_back_is_allowed() {
    let site = site();
    site.write("far.tf", UNKNOWN);
    let refused = |more: &[&str]| {
        let mut arguments = vec!["plan", "-f", "a.tf"];
        arguments.extend(more);
        site.kl(&arguments).expect(4).says("module.far")
    };
    refused(&["--protocol", "kl"]);
    refused(&["--fallback", "never"]);
    refused(&[]).says("no terminal to ask on");
    // The ordinary lane is the real Terraform, which wants the module installed.
    site.kl(&["plan", "-f", "a.tf", "--fallback", "always"])
        .expect(1)
        .says("lane: http")
        .says("terraform init");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn an_encrypted_state_falls_back_before_anything_happens() {
    let site = site();
    site.0.import(crate::harness::case_file(
        "encrypted-envelope-with-serial.json",
    ));
    site.kl(&["plan", "-f", "a.tf", "--fallback", "never"])
        .expect(4)
        .says("kept as a document only");
    assert_eq!(site.runs(), 0);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn the_whole_state_is_not_the_native_lane_s_to_take() {
    let site = site();
    site.kl(&["plan", "--protocol", "kl"])
        .expect(4)
        .says("nothing was selected");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn another_tool_works_in_a_run_and_a_second_terraform_is_refused() {
    let site = site();
    let begun = site.0.json(&["run", "begin", "-f", "a.tf"]);
    let environment = begun["environment"].as_object().unwrap();
    let terraform = |arguments: &[&str]| {
        let mut command = site.0.command("terraform");
        command.args(arguments);
        for (name, value) in environment {
            command.env(name, value.as_str().unwrap());
        }
        command
    };
    site.write("a.tf", "resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    command = \"touch begun; while [ ! -e go ]; do sleep 0.1; done\"\n  }\n}\n");
    let mut first = terraform(&["apply", "-auto-approve", "-input=false"]);
    let first = first
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let second = || {
        let done = terraform(&["plan", "-input=false", "-no-color"])
            .output()
            .unwrap();
        String::from_utf8(done.stderr).unwrap()
    };
    site.until("the provisioner", || site.0.path("begun").exists());
    assert!(second().contains("state already locked"), "{}", second());
    site.write("go", "");
    assert!(first.wait_with_output().unwrap().status.success());
    let run = environment["KL_RUN"].as_str().unwrap();
    let mut end = site.0.kl_command(&["run", "end"]);
    end.env("KL_RUN", run)
        .env("TF_DATA_DIR", environment["TF_DATA_DIR"].as_str().unwrap());
    crate::harness::Done(end.output().unwrap()).expect(0);
    assert_eq!(site.addresses(), ["terraform_data.a"]);
    let left = environment["TF_DATA_DIR"].as_str().unwrap();
    assert!(!std::path::Path::new(left).exists());
}
