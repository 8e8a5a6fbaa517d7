//! `kl recover`: uploads that came too late, and what Terraform left in the directory.

use super::site::{Site, done};

const HELD: &str = "resource \"terraform_data\" \"held\" {\n  provisioner \"local-exec\" {\n    command = \"touch begun; while [ ! -e go ]; do sleep 0.1; done\"\n  }\n}\n";

/// A site whose apply was aborted before its upload; answers the kept id.
fn kept() -> (Site, String) {
    let site = Site::new(&[("held.tf", HELD)]);
    let apply = site.spawn(&["apply", "-f", "held.tf", "--auto-approve"]);
    site.until("the provisioner", || site.0.path("begun").exists());
    let status = site.0.json(&["status"]);
    let run = status["runs"][0]["id"].as_str().unwrap();
    site.kl(&["apply", "abort", run]).expect(0);
    site.write("go", "");
    done(apply).expect(1);
    let found = site.0.json(&["recover"]);
    let kept = found["kept"][0]["id"].as_str().unwrap().to_owned();
    (site, kept)
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_choice_is_for_an_address_of_the_upload_and_made_once() {
    let (site, kept) = kept();
    assert!(site.0.path("errored.tfstate").exists());
    let adopt = |more: &[&str]| {
        let mut command = vec!["recover", "--adopt", &kept, "--yes"];
        command.extend(more);
        site.kl(&command)
    };
    for flag in ["--prefer-kept", "--prefer-state"] {
        adopt(&[flag, "terraform_data.hell"])
            .expect(2)
            .says("changed nothing at terraform_data.hell")
            .says("terraform_data.held");
    }
    adopt(&[]).expect(0);
    assert_eq!(site.addresses(), ["terraform_data.held"]);
    // Whatever the state has become by then, it is not asked about again.
    for more in [&[][..], &["--prefer-kept", "terraform_data.held"]] {
        adopt(more).expect(1).says("adopted or discarded before");
    }
    let text = site.kl(&["recover"]).expect(0).stdout();
    assert!(text.contains("dealt with: remove the file"), "{text}");
    let found = site.0.json(&["recover"]);
    assert_eq!(found["errored"]["settled"], true, "{found}");
    assert!(found["kept"].as_array().unwrap().is_empty(), "{found}");
}
