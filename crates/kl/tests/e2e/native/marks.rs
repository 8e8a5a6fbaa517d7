//! What an apply leaves that ended without its own word, who is told, and what settles it.

use super::site::{Site, done};

const TWO: &str = "resource \"terraform_data\" \"a\" {\n  input = 1\n}\nresource \"terraform_data\" \"b\" {\n  input = 1\n}\n";
/// Goes on until the test lets it.
const HELD: &str = "resource \"terraform_data\" \"held\" {\n  provisioner \"local-exec\" {\n    command = \"touch begun; while [ ! -e go ]; do sleep 0.1; done\"\n  }\n}\n";

/// A state in which an apply of `held.tf` was aborted while it built; answers the run.
fn aborted() -> (Site, String) {
    let site = Site::new(&[("two.tf", TWO), ("held.tf", HELD)]);
    site.apply(&["-f", "two.tf"]);
    let mut apply = site.spawn(&["apply", "-f", "held.tf", "--auto-approve"]);
    site.until("the provisioner", || site.0.path("begun").exists());
    let status = site.0.json(&["status"]);
    let run = status["runs"][0]["id"].as_str().unwrap().to_owned();
    site.kl(&["apply", "abort", &run, "--reason", "gone"])
        .expect(0);
    site.write("go", "");
    apply.wait().unwrap();
    (site, run)
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn what_is_unsettled_is_shown_and_a_plan_over_it_can_be_applied() {
    let (site, run) = aborted();
    let status = site.kl(&["status"]).expect(0).stdout();
    for expected in [
        "terraform_data.held is unsettled",
        &run,
        "gone",
        "ann@",
        "kl apply --target 'terraform_data.held'",
    ] {
        assert!(status.contains(expected), "{status}");
    }
    // Elsewhere nobody is told.
    let elsewhere = site.kl(&["plan", "-f", "two.tf"]).expect(0);
    assert!(
        !elsewhere.stderr().contains("unsettled"),
        "{}",
        elsewhere.stderr()
    );
    site.kl(&["plan", "-f", "held.tf", "-refresh=false"])
        .expect(2)
        .says("unsettled");
    site.kl(&["plan", "-f", "held.tf", "-o", "held.plan"])
        .expect(0)
        .says("terraform_data.held is unsettled")
        .says(&run)
        .says("settled by an apply");
    site.kl(&["apply", "held.plan", "--confirm-scope"])
        .expect(0);
    let status = site.0.json(&["status"]);
    assert!(status.get("unsettled").is_none(), "{status}");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn an_apply_of_plain_terraform_that_was_broken_is_shown_until_another_writes() {
    let site = Site::new(&[("two.tf", TWO)]);
    site.terraform_ok(&["apply", "-auto-approve", "-input=false"]);
    let lock = site.0.lock_by("bob@ci");
    site.kl(&["unlock", "--lock-id", &lock, "--yes"]).expect(0);
    let status = site.kl(&["status"]).expect(0).stdout();
    assert!(status.contains("the whole state is unsettled"), "{status}");
    assert!(status.contains("plain Terraform of bob@ci"), "{status}");
    site.kl(&["plan", "-f", "two.tf"])
        .expect(0)
        .says("the whole state is unsettled");
    site.write("two.tf", &TWO.replace("input = 1", "input = 2"));
    site.terraform_ok(&["apply", "-auto-approve", "-input=false"]);
    let status = site.0.json(&["status"]);
    assert!(status.get("unsettled").is_none(), "{status}");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn force_unlock_fails_where_a_run_holds_the_state() {
    let site = Site::new(&[("two.tf", TWO), ("held.tf", HELD)]);
    let apply = site.spawn(&["apply", "-f", "held.tf", "--auto-approve"]);
    site.until("the provisioner", || site.0.path("begun").exists());
    let unlocked = site.terraform(&["force-unlock", "-force", "any-id"]);
    assert!(!unlocked.status.success(), "{unlocked:?}");
    assert_eq!(site.runs(), 1);
    site.write("go", "");
    done(apply).expect(0);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_run_that_is_over_is_neither_aborted_nor_ended() {
    let (site, run) = aborted();
    site.kl(&["apply", "abort", &run])
        .expect(1)
        .says("is over: aborted");
    let finished = site.apply(&["-f", "two.tf", "--replace", "terraform_data.a"]);
    let words = finished.stderr();
    let id = words
        .split("run ")
        .nth(1)
        .unwrap()
        .split(',')
        .next()
        .unwrap();
    site.kl(&["apply", "abort", id])
        .expect(1)
        .says("is over: done");
    site.kl(&["run", "end", id]).expect(1).says("is over: done");
    site.kl(&["run", "end", id, "--failed"])
        .expect(1)
        .says("is over: done");
}
