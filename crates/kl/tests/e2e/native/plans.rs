//! `kl plan`: what it shows, how it ends, and that it leaves no trace.

use super::site::Site;

const NETWORK: &str = "resource \"terraform_data\" \"net\" {\n  input = \"10.0.0.0/16\"\n}\n";
const DATABASE: &str = "resource \"terraform_data\" \"db\" {\n  input = \"in ${terraform_data.net.output}\"\n}\noutput \"db\" {\n  value = terraform_data.db.output\n}\n";
const WEB: &str =
    "resource \"terraform_data\" \"web\" {\n  count = 2\n  input = \"web ${count.index}\"\n}\n";

fn site() -> Site {
    Site::new(&[
        ("net.tf", NETWORK),
        ("database.tf", DATABASE),
        ("web.tf", WEB),
    ])
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_plan_of_a_file_holds_what_the_file_needs_and_nothing_else() {
    let site = site();
    let before = site.tree();
    let plan = site.0.json(&["plan", "-f", "database.tf"]);
    assert_eq!(plan["lane"], "native");
    assert_eq!(plan["has_changes"], true);
    let addresses: Vec<_> = plan["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| {
            (
                change["address"].as_str().unwrap(),
                change["action"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        addresses,
        [
            ("terraform_data.db", "create"),
            ("terraform_data.net", "create")
        ]
    );
    assert_eq!(plan["outputs"], serde_json::json!(["db"]));
    assert_eq!(site.tree(), before);
    assert_eq!(site.runs(), 0);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn the_exit_code_tells_changes_where_that_is_asked_for() {
    let site = site();
    let plan = ["plan", "-f", "database.tf", "-detailed-exitcode"];
    site.kl(&plan).expect(2).says("lane: native");
    site.apply(&["-f", "database.tf"]);
    let done = site.kl(&plan).expect(0).says("scope: safe");
    assert!(done.stdout().contains("No changes."), "{}", done.stdout());
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_user_who_has_initialised_needs_nothing_more_and_keeps_everything() {
    let site = site();
    let url = site.0.url();
    site.write(
        "backend.tf",
        &format!("terraform {{\n  backend \"http\" {{\n    address = \"{url}\"\n    unlock_method = \"POST\"\n  }}\n}}\n"),
    );
    let mut init = site.0.command("terraform");
    init.args(["init", "-input=false"])
        .env("TF_HTTP_USERNAME", "kl")
        .env("TF_HTTP_PASSWORD", crate::stack::stack("TOKEN"));
    assert!(init.output().unwrap().status.success());
    let before = site.tree();
    site.apply(&["-f", "web.tf"]);
    assert_eq!(site.tree(), before);
    assert_eq!(
        site.addresses(),
        ["terraform_data.web[0]", "terraform_data.web[1]"]
    );
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn variables_of_every_kind_reach_the_plan_and_the_apply() {
    let site = Site::new(&[
        (
            "v.tf",
            "variable \"a\" {}\nvariable \"b\" {}\nvariable \"c\" {}\nvariable \"e\" {\n  ephemeral = true\n}\nlocals {\n  e = var.e\n}\n",
        ),
        (
            "x.tf",
            "resource \"terraform_data\" \"x\" {\n  input = [var.a, var.b, var.c]\n}\n",
        ),
        ("one.auto.tfvars", "a = \"auto\"\n"),
        ("two.tfvars", "b = \"file\"\n"),
    ]);
    let missing = [
        "apply",
        "-f",
        "x.tf",
        "--auto-approve",
        "-var-file=two.tfvars",
    ];
    site.kl(&missing)
        .expect(2)
        .says("the variables c, e have no value");
    site.apply(&[
        "-f",
        "x.tf",
        "-var-file=two.tfvars",
        "-var",
        "c=flag",
        "-var",
        "e=gone",
    ]);
    assert_eq!(
        site.input_of("terraform_data.x"),
        serde_json::json!(["auto", "file", "flag"])
    );
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_selection_that_means_nothing_is_told_what_is_near() {
    let site = site();
    site.write(
        "locals.tf",
        "locals {\n  range = terraform_data.net.output\n}\n",
    );
    site.write(
        "uses.tf",
        "resource \"terraform_data\" \"uses\" {\n  input = local.range\n}\n",
    );
    let refused = |arguments: &[&str], code: i32, words: &str| {
        site.kl(arguments).expect(code).says(words);
    };
    refused(
        &["plan", "--target", "terraform_data.wbe"],
        2,
        "near it are terraform_data.web",
    );
    refused(
        &["plan", "-f", "databse.tf"],
        2,
        "did you mean database.tf?",
    );
    refused(
        &["plan", "-f", "locals.tf"],
        2,
        "what depends on it: terraform_data.uses",
    );
    refused(&["plan", "-state=x", "-f", "web.tf"], 2, "-state");
    refused(
        &["plan", "-lock=false", "-f", "web.tf"],
        2,
        "-lock is not for kl",
    );
    site.write("broken.tf", "resource \"a\" {\n");
    refused(&["plan", "-f", "web.tf"], 1, "broken.tf:1");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn another_backend_is_told_what_to_add() {
    let site = site();
    site.write("backend.tf", "terraform {\n  backend \"local\" {}\n}\n");
    site.kl(&["plan", "-f", "web.tf"])
        .expect(2)
        .says("keeps its state in `local`")
        .says("backend \"http\"");
    site.remove("backend.tf");
    site.kl(&["plan", "-f", "web.tf"])
        .expect(2)
        .says("has no backend block");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_program_that_is_missing_or_something_else_is_named() {
    let site = site();
    let with = |program: &str| {
        let mut command = site.0.kl_command(&["plan", "-f", "web.tf"]);
        command.env("KL_IAC_BINARY", program);
        crate::harness::Done(command.output().unwrap())
    };
    with("/no/such/terraform")
        .expect(2)
        .says("could not be started");
    with("true").expect(2).says("did not answer as Terraform");
    site.write("old", "#!/bin/sh\necho Terraform v1.3.9\n");
    let old = site.0.path("old");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&old, executable).unwrap();
    with(old.to_str().unwrap())
        .expect(2)
        .says("needs 1.5 or newer");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn what_changed_since_a_revision_is_a_selection() {
    let site = site();
    let git = |arguments: &[&str]| {
        let mut command = site.0.command("git");
        command.args(arguments);
        let done = command.output().unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&[
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "commit",
        "-qm",
        "one",
    ]);
    site.apply(&["-f", "web.tf", "-f", "database.tf"]);
    site.write("web.tf", &WEB.replace("web $", "www $"));
    site.write("new.tf", "resource \"terraform_data\" \"new\" {}\n");
    site.write("README.md", "not configuration\n");
    let plan = site.0.json(&["plan", "--changed-from", "HEAD"]);
    let addresses: Vec<_> = plan["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["address"].as_str().unwrap())
        .collect();
    assert_eq!(
        addresses,
        [
            "terraform_data.new",
            "terraform_data.web[0]",
            "terraform_data.web[1]"
        ]
    );
    site.kl(&["plan", "--changed-from", "no-such-revision"])
        .expect(2)
        .says("git: ");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_move_that_is_done_or_never_was_is_no_doubt() {
    let site = Site::new(&[(
        "use.tf",
        "resource \"terraform_data\" \"used\" {}\nmoved {\n  from = terraform_data.use\n  to = terraform_data.used\n}\n",
    )]);
    site.kl(&["plan", "-f", "use.tf"]).expect(0);
    site.apply(&["-f", "use.tf"]);
    let said = site
        .kl(&["plan", "-f", "use.tf", "--protocol", "kl"])
        .expect(0)
        .stdout();
    assert!(said.contains("No changes"), "{said}");
}
