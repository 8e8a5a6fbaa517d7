//! What kl says of a scope beside the plan: who is touched by it, and where it looked.

use super::site::Site;
use crate::stack::stack;

const A: &str = "resource \"terraform_data\" \"a\" {\n  input = 1\n}\n";
const B: &str = "resource \"terraform_data\" \"b\" {\n  input = terraform_data.a.output\n}\n";

#[test]
#[ignore = "needs cargo xtask stack"]
fn who_still_names_what_goes_is_listed() {
    let site = Site::new(&[("a.tf", A), ("b.tf", B)]);
    site.apply(&["-f", "a.tf", "-f", "b.tf"]);
    site.remove("a.tf");
    site.write("b.tf", &B.replace("terraform_data.a.output", "2"));
    site.kl(&["plan", "-f", "a.tf"])
        .expect(0)
        .says("terraform_data.a will go, and is still named by terraform_data.b");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn an_output_that_reaches_beyond_the_slice_is_named() {
    let site = Site::new(&[
        ("a.tf", A),
        (
            "c.tf",
            "resource \"terraform_data\" \"c\" {\n  input = 1\n}\n",
        ),
        (
            "outputs.tf",
            "output \"both\" {\n  value = [terraform_data.a.output, terraform_data.c.output]\n}\n",
        ),
    ]);
    site.apply(&["-f", "a.tf", "-f", "c.tf"]);
    site.kl(&["plan", "-f", "a.tf"])
        .expect(0)
        .says("output both reaches beyond the scope");
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn the_state_may_be_named_part_by_part() {
    let site = Site::new(&[("a.tf", A)]);
    let parts = format!(
        "server = \"{}\"\nworkspace = \"{}\"\nenvironment = \"{}\"\nstate = \"{}\"\n",
        stack("URL"),
        stack("WORKSPACE"),
        stack("ENV"),
        site.0.state
    );
    site.write(".kl.toml", &parts);
    site.apply(&["-f", "a.tf"]);
    assert_eq!(site.addresses(), ["terraform_data.a"]);
}
