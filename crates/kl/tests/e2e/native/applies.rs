//! `kl apply`: several at once, beside plain Terraform, and what is deleted.

use super::site::{Site, done};

#[test]
#[ignore = "needs cargo xtask stack"]
fn eight_disjoint_applies_at_once_all_land() {
    let files: Vec<(String, String)> = (0..8)
        .map(|team| {
            let text = format!(
                "resource \"terraform_data\" \"t{team}\" {{\n  input = \"{team} on ${{terraform_data.base.output}}\"\n  provisioner \"local-exec\" {{\n    command = \"sleep 1\"\n  }}\n}}\n"
            );
            (format!("team{team}.tf"), text)
        })
        .collect();
    let site = Site::new(&[(
        "base.tf",
        "resource \"terraform_data\" \"base\" {\n  input = \"b\"\n}\n",
    )]);
    for (name, text) in &files {
        site.write(name, text);
    }
    site.apply(&["-f", "base.tf"]);
    let before = site.tree();
    let running: Vec<_> = files
        .iter()
        .map(|(name, _)| site.spawn(&["apply", "-f", name, "--auto-approve"]))
        .collect();
    for child in running {
        done(child).expect(0).says("recorded: version");
    }
    assert_eq!(site.tree(), before);
    assert_eq!(site.addresses().len(), 9);
    assert!(site.full_plan(&[]).is_empty(), "{:?}", site.full_plan(&[]));
    let history = site.0.json(&["history"]);
    let by_run = |team: usize| {
        let versions = history["versions"].as_array().unwrap();
        let command = format!("kl apply -f team{team}.tf");
        versions
            .iter()
            .any(|version| version["command"] == command.as_str())
    };
    assert!((0..8).all(by_run), "{history}");
}

/// Goes on until the test lets it.
const HELD: &str = "resource \"terraform_data\" \"held\" {\n  provisioner \"local-exec\" {\n    command = \"while [ ! -e go ]; do sleep 0.1; done\"\n  }\n}\n";

#[test]
#[ignore = "needs cargo xtask stack"]
fn plain_terraform_is_told_who_holds_the_state_and_others_work_on_the_rest() {
    let site = Site::new(&[
        ("held.tf", HELD),
        ("free.tf", "resource \"terraform_data\" \"free\" {}\n"),
    ]);
    let holder = site.spawn(&["apply", "-f", "held.tf", "--auto-approve"]);
    site.until("a run", || site.runs() == 1);
    let plain = site.terraform(&["plan", "-input=false", "-no-color"]);
    let said = String::from_utf8(plain.stderr).unwrap();
    assert!(!plain.status.success());
    assert!(said.contains("kl apply -f held.tf by ann@"), "{said}");

    let colleague = site.colleague();
    colleague.apply(&["-f", "free.tf"]);
    colleague
        .kl(&["apply", "-f", "held.tf", "--auto-approve", "--wait", "0"])
        .expect(3)
        .says("kl apply -f held.tf")
        .says("terraform_data.held");
    let why = colleague
        .kl(&["why", "terraform_data.held"])
        .expect(0)
        .stdout();
    assert!(why.contains("it writes terraform_data.held"), "{why}");

    let waiting = colleague.spawn(&["apply", "-f", "held.tf", "--auto-approve", "--wait", "1m"]);
    site.until("a waiter", || site.waiters() == 1);
    site.write("go", "");
    colleague.write("go", "");
    done(holder).expect(0);
    done(waiting).expect(0).says("waiting for ann@");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn what_destroys_needs_a_word_of_its_own() {
    let site = Site::new(&[(
        "a.tf",
        "resource \"terraform_data\" \"a\" {}\nresource \"terraform_data\" \"b\" {}\n",
    )]);
    site.apply(&["-f", "a.tf"]);
    site.write("a.tf", "resource \"terraform_data\" \"a\" {}\n");
    site.kl(&["apply", "-f", "a.tf", "--auto-approve"])
        .expect(1)
        .says("destroys terraform_data.b")
        .says("--confirm-scope");
    site.kl(&["apply", "-f", "a.tf"])
        .expect(2)
        .says("no terminal to ask on")
        .says("destroys terraform_data.b");
    assert_eq!(site.addresses().len(), 2);
    site.apply(&["-f", "a.tf"]);
    assert_eq!(site.addresses(), ["terraform_data.a"]);
    let diff = site.0.json(&["diff"]);
    assert_eq!(diff["removed"], serde_json::json!(["terraform_data.b"]));
    assert_eq!(diff["added"], serde_json::json!([]));
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn destroying_takes_along_what_depends_on_it() {
    let site = Site::new(&[
        ("a.tf", "resource \"terraform_data\" \"a\" {}\n"),
        (
            "b.tf",
            "resource \"terraform_data\" \"b\" {\n  input = terraform_data.a.id\n}\n",
        ),
        ("c.tf", "resource \"terraform_data\" \"c\" {}\n"),
    ]);
    site.apply(&["-f", "a.tf", "-f", "b.tf", "-f", "c.tf"]);
    site.apply(&["--destroy", "--target", "terraform_data.a"]);
    assert_eq!(site.addresses(), ["terraform_data.c"]);
}
