//! Mistakes and edges: what kl says of them before anything is done, and what it leaves behind.

use std::path::PathBuf;

use super::site::Site;
use crate::stack::stack;

const A: &str = "resource \"terraform_data\" \"a\" {\n  input = 1\n}\n";
const B: &str = "resource \"terraform_data\" \"b\" {\n  input = 1\n}\noutput \"of_b\" {\n  value = terraform_data.b.input\n}\n";

fn site() -> Site {
    let site = Site::new(&[("a.tf", A), ("b.tf", B)]);
    site.apply(&["-f", "a.tf", "-f", "b.tf"]);
    site
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_state_that_may_not_be_seen_is_no_server_without_the_lane() {
    let site = site();
    let stranger = Site(site.0.as_token(&stack("OTHER_TOKEN")));
    stranger.write("backend.tf", "terraform {\n  backend \"http\" {}\n}\n");
    stranger.write("a.tf", A);
    for command in [&["plan", "-f", "a.tf"][..], &["recover"], &["status"]] {
        let done = stranger.kl(command).expect(5).says("kl whoami");
        assert!(!done.stderr().contains("native lane"), "{}", done.stderr());
    }
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_saved_plan_destroys_only_what_was_agreed_to() {
    let site = site();
    site.kl(&["plan", "--destroy", "-f", "a.tf", "-o", "gone.plan"])
        .expect(0);
    for flags in [&[][..], &["--auto-approve"]] {
        let mut command = vec!["apply", "gone.plan"];
        command.extend(flags);
        site.kl(&command)
            .expect(1)
            .says("destroys terraform_data.a")
            .says("--confirm-scope");
        assert_eq!(site.addresses().len(), 2);
    }
    site.kl(&["apply", "gone.plan", "--confirm-scope"])
        .expect(0);
    assert_eq!(site.addresses(), ["terraform_data.b"]);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn an_output_whose_file_is_gone_is_named() {
    let site = Site::new(&[
        ("a.tf", A),
        (
            "outputs.tf",
            "output \"of_a\" {\n  value = terraform_data.a.input\n}\n",
        ),
    ]);
    site.apply(&["-f", "a.tf"]);
    site.remove("outputs.tf");
    site.kl(&["plan", "-f", "a.tf"])
        .expect(0)
        .says("no longer in the configuration: output of_a")
        .says("may be out of date");
    site.kl(&["plan", "-f", "outputs.tf"])
        .expect(2)
        .says("output of_a");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn what_terraform_would_refuse_is_refused_before_a_run_begins() {
    let site = site();
    for (flags, says) in [
        (
            &["--destroy", "--replace", "terraform_data.a"][..],
            "cannot be used with",
        ),
        (&["--refresh-only", "--destroy"], "cannot be used with"),
        (&["--refresh-only", "-refresh=false"], "one of them"),
        (&["--var", "nothing"], "NAME=VALUE"),
        (&["--var", "nosuch=1"], "no variable of that name"),
        (
            &["-o", "a.tf"],
            "has the name of a file that Terraform reads",
        ),
        (
            &["-o", "new.tfvars"],
            "has the name of a file that Terraform reads",
        ),
        (&["-o", "notes.txt"], "is not a plan"),
    ] {
        site.write("notes.txt", "mine");
        let mut command = vec!["plan", "-f", "a.tf"];
        command.extend(flags);
        site.kl(&command).expect(2).says(says);
    }
    assert_eq!(std::fs::read_to_string(site.0.path("a.tf")).unwrap(), A);
    assert_eq!(
        std::fs::read_to_string(site.0.path("notes.txt")).unwrap(),
        "mine"
    );
    site.write("empty", "");
    site.kl(&["plan", "-f", "a.tf", "-o", "empty"]).expect(0);
    // A plan gives way to the next one.
    site.kl(&["plan", "-f", "a.tf", "-o", "empty"]).expect(0);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn forgetting_what_is_not_there_says_what_is_near() {
    let site = site();
    for flags in [&[][..], &["--apply"]] {
        let mut command = vec!["state", "rm", "terraform_data.a", "terraform_data.bb"];
        command.extend(flags);
        site.kl(&command)
            .expect(1)
            .says("holds nothing at terraform_data.bb")
            .says("terraform_data.b");
    }
    assert_eq!(site.addresses().len(), 2);
}

/// A directory for temporary files of one test's own.
fn temporary(site: &Site) -> PathBuf {
    let place = site.0.path("tmp");
    std::fs::create_dir_all(&place).unwrap();
    place
}

fn run_directories(site: &Site) -> usize {
    let entries = std::fs::read_dir(temporary(site)).unwrap().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("kl-run-"))
        .count()
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn directories_of_killed_runs_go_with_the_next_and_those_at_work_stay() {
    let site = site();
    site.write(
        "held.tf",
        "resource \"terraform_data\" \"held\" {\n  provisioner \"local-exec\" {\n    command = \"touch begun; while [ ! -e go ]; do sleep 0.1; done\"\n  }\n}\n",
    );
    let kl = |arguments: &[&str]| {
        let mut command = site.0.kl_command(arguments);
        command.env("TMPDIR", temporary(&site));
        command
    };
    let mut apply = kl(&["apply", "-f", "held.tf", "--auto-approve"]);
    let silent = std::process::Stdio::null;
    let mut apply = apply.stdout(silent()).stderr(silent()).spawn().unwrap();
    site.until("the provisioner", || site.0.path("begun").exists());
    apply.kill().unwrap();
    apply.wait().unwrap();
    // Terraform lives on, and works in its directory.
    let plan = || crate::harness::Done(kl(&["plan", "-f", "a.tf"]).output().unwrap()).expect(0);
    plan();
    assert_eq!(run_directories(&site), 1);
    site.write("go", "");
    let gone = || {
        plan();
        run_directories(&site) == 0
    };
    site.until("the end of Terraform", gone);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn the_directory_of_a_run_for_another_tool_goes_when_it_is_ended_by_its_id() {
    let site = site();
    let kl = |arguments: &[&str]| {
        let mut command = site.0.kl_command(arguments);
        command.env("TMPDIR", temporary(&site));
        crate::harness::Done(command.output().unwrap())
    };
    let begun = kl(&["run", "begin", "-f", "a.tf", "--json"])
        .expect(0)
        .stdout();
    let begun: serde_json::Value = serde_json::from_str(&begun).unwrap();
    kl(&["plan", "-f", "b.tf"]).expect(0);
    assert_eq!(run_directories(&site), 1);
    kl(&["run", "end", begun["run"].as_str().unwrap()]).expect(0);
    assert_eq!(run_directories(&site), 0);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn another_backend_is_overridden_on_request_and_nothing_is_left() {
    let site = Site::new(&[("a.tf", A)]);
    for backend in [
        "terraform {\n  backend \"local\" {}\n}\n",
        "terraform {\n  cloud {\n    organization = \"o\"\n    workspaces {\n      name = \"w\"\n    }\n  }\n}\n",
        "",
    ] {
        site.write("backend.tf", backend);
        let before = site.tree();
        site.kl(&["plan", "-f", "a.tf"])
            .expect(2)
            .says("--override-backend");
        site.kl(&["plan", "-f", "a.tf", "--override-backend"])
            .expect(0)
            .says("lane: native");
        assert_eq!(site.tree(), before);
    }
    site.kl(&[
        "apply",
        "-f",
        "a.tf",
        "--override-backend",
        "--auto-approve",
    ])
    .expect(0);
    assert_eq!(site.addresses(), ["terraform_data.a"]);
    // It fails half-way, and still takes the file away.
    site.write(
        "a.tf",
        "resource \"terraform_data\" \"a\" {\n  input = nosuch.thing\n}\n",
    );
    let before = site.tree();
    site.kl(&["plan", "--target", "terraform_data.a", "--override-backend"])
        .expect(1);
    assert_eq!(site.tree(), before);
}
