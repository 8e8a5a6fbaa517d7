//! Plans that are applied later.

use super::site::Site;

fn site() -> Site {
    let site = Site::new(&[
        (
            "a.tf",
            "resource \"terraform_data\" \"a\" {\n  input = 1\n}\n",
        ),
        (
            "b.tf",
            "resource \"terraform_data\" \"b\" {\n  input = 1\n}\n",
        ),
    ]);
    site.apply(&["-f", "a.tf", "-f", "b.tf"]);
    site
}

fn set(site: &Site, name: &str, value: u32) {
    site.write(
        &format!("{name}.tf"),
        &format!("resource \"terraform_data\" \"{name}\" {{\n  input = {value}\n}}\n"),
    );
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_change_outside_its_slice_does_not_make_a_plan_stale_and_it_applies_once() {
    let site = site();
    set(&site, "a", 2);
    site.kl(&["plan", "-f", "a.tf", "-out=a.plan"]).expect(0);
    let mode = std::fs::metadata(site.0.path("a.plan"))
        .unwrap()
        .permissions();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777,
        0o600
    );
    set(&site, "b", 2);
    site.apply(&["-f", "b.tf"]);

    site.kl(&["apply", "a.plan"])
        .expect(0)
        .says("recorded: version");
    assert_eq!(site.input_of("terraform_data.a"), 2);
    assert_eq!(site.input_of("terraform_data.b"), 2);
    site.kl(&["apply", "a.plan"]).expect(1).says("plan_spent");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_change_inside_its_slice_makes_a_plan_stale_and_names_address_run_and_person() {
    let site = site();
    set(&site, "a", 2);
    site.kl(&["plan", "-f", "a.tf", "-o", "a.plan"]).expect(0);
    set(&site, "a", 3);
    site.apply(&["-f", "a.tf"]);
    site.kl(&["apply", "a.plan"])
        .expect(1)
        .says("plan_stale")
        .says("terraform_data.a")
        .says("run_");
    assert_eq!(site.input_of("terraform_data.a"), 3);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_file_that_no_run_made_is_no_plan() {
    let site = site();
    site.write("x.plan", "nothing");
    site.kl(&["apply", "x.plan"]).expect(1).says("plan_unknown");
    site.kl(&["apply", "no-such.plan"])
        .expect(2)
        .says("could not read the plan");
    site.kl(&["apply", "x.plan", "-f", "a.tf"])
        .expect(2)
        .says("not both");
}
