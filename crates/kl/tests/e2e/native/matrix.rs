//! The scope matrix: each feature of the language planned and applied in a scope, and compared with
//! what Terraform plans on the whole state.
//!
//! A case deploys its base with plain Terraform, changes files inside and outside the scope, and
//! asks: does kl plan in the scope what the full plan does there? Is it what an apply then does, and
//! is everything outside left as it was? `outside` is what the full plan still has to do afterwards.

use super::site::{Changes, Site};

struct Case<'a> {
    base: &'a [(&'a str, &'a str)],
    /// Files written over the base, or removed where there is no text.
    change: &'a [(&'a str, Option<&'a str>)],
    selection: &'a [&'a str],
    /// The beginnings of addresses in the scope.
    scope: &'a [&'a str],
    /// Flags for plain Terraform that the selection has for kl.
    flags: &'a [&'a str],
}

impl Default for Case<'_> {
    fn default() -> Self {
        Self {
            base: &[],
            change: &[],
            selection: &["-f", "a.tf"],
            scope: &["terraform_data.a"],
            flags: &[],
        }
    }
}

/// Something outside every scope that always wants to change.
const OTHER: &str = "resource \"terraform_data\" \"other\" {\n  input = \"VALUE\"\n}\n";

impl Case<'_> {
    fn deploy(&self) -> Site {
        let site = Site::new(self.base);
        site.write("other.tf", &OTHER.replace("VALUE", "1"));
        site.write("base.tf", "resource \"terraform_data\" \"base\" {}\n");
        let mut apply = vec!["apply", "-auto-approve", "-input=false"];
        apply.extend(self.flags);
        site.terraform_ok(&apply);
        site
    }

    fn change(&self, site: &Site) {
        site.write("other.tf", &OTHER.replace("VALUE", "2"));
        for (name, text) in self.change {
            match text {
                Some(text) => site.write(name, text),
                None => site.remove(name),
            }
        }
    }

    fn check(&self) {
        let site = self.deploy();
        self.change(&site);
        self.compare(&site);
    }

    fn compare(&self, site: &Site) {
        let is_inside = |address: &String| {
            self.scope.iter().any(|scope| {
                let rest = without_deposed(address).strip_prefix(scope);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            })
        };
        let full = site.full_plan(self.flags);
        let (inside, outside): (Changes, Changes) = full
            .into_iter()
            .partition(|(address, _)| is_inside(address));
        assert!(!inside.is_empty(), "the case changes nothing in its scope");
        assert!(outside.contains_key("terraform_data.other"), "{outside:?}");

        let mut plan = vec!["plan"];
        plan.extend(self.selection);
        plan.extend(self.flags);
        let planned = site.0.json(&plan);
        let addresses: Vec<&str> = planned["changes"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|change| change["action"] != "read")
            .map(|change| change["address"].as_str().unwrap())
            .collect();
        let expected: Vec<&str> = inside.keys().map(|key| without_deposed(key)).collect();
        let mut sorted = addresses.clone();
        sorted.sort_unstable();
        let mut expected_sorted = expected.clone();
        expected_sorted.sort_unstable();
        assert_eq!(sorted, expected_sorted, "{planned}");

        let before = site.tree();
        let mut apply = self.selection.to_vec();
        apply.extend(self.flags);
        site.apply(&apply);
        assert_eq!(site.tree(), before, "the user's directory");
        let left = site.full_plan(self.flags);
        assert_eq!(left, outside, "what is left for the whole state");
    }
}

/// An address without the key of a deposed object, which the helper puts behind it.
fn without_deposed(key: &str) -> &str {
    key.split('|').next().unwrap_or(key)
}

macro_rules! cases {
    ($($name:ident => $case:expr;)*) => {
        $(
            #[test]
            #[ignore = "needs cargo xtask stack"]
            fn $name() {
                let case: Case<'_> = $case;
                case.check();
            }
        )*
    };
}

cases! {
    plain => Case {
        base: &[("a.tf", "resource \"terraform_data\" \"a\" {\n  input = 1\n}\n")],
        change: &[("a.tf", Some("resource \"terraform_data\" \"a\" {\n  input = 2\n}\nresource \"terraform_data\" \"a2\" {}\n"))],
        scope: &["terraform_data.a", "terraform_data.a2"],
        ..Case::default()
    };
    locals => Case {
        base: &[
            ("a.tf", "resource \"terraform_data\" \"a\" {\n  input = local.two\n}\n"),
            ("l.tf", "locals {\n  one = \"x\"\n  two = \"${local.one}-${terraform_data.b.output}\"\n}\nresource \"terraform_data\" \"b\" {\n  input = 1\n}\n"),
        ],
        change: &[("l.tf", Some("locals {\n  one = \"y\"\n  two = \"${local.one}-${terraform_data.b.output}\"\n}\nresource \"terraform_data\" \"b\" {\n  input = 1\n}\n"))],
        ..Case::default()
    };
    module => Case {
        base: &[
            ("a.tf", "module \"m\" {\n  source = \"./m\"\n  x = 1\n}\n"),
            ("m/m.tf", "variable \"x\" {}\nresource \"terraform_data\" \"r\" {\n  input = [var.x, path.module]\n}\n"),
        ],
        change: &[("a.tf", Some("module \"m\" {\n  source = \"./m\"\n  x = 2\n}\n"))],
        scope: &["module.m"],
        ..Case::default()
    };
    keyed_modules => Case {
        base: &[
            ("a.tf", "module \"m\" {\n  source = \"./m\"\n  for_each = toset([\"x\", \"y.z\"])\n  x = each.key\n}\n"),
            ("m/m.tf", "variable \"x\" {}\nresource \"terraform_data\" \"r\" {\n  input = var.x\n}\nresource \"terraform_data\" \"s\" {\n  count = 2\n  input = terraform_data.r.output\n}\n"),
        ],
        change: &[("a.tf", Some("module \"m\" {\n  source = \"./m\"\n  for_each = toset([\"x\", \"new\"])\n  x = \"v-${each.key}\"\n}\n"))],
        scope: &["module.m"],
        ..Case::default()
    };
    count => Case {
        base: &[("a.tf", "resource \"terraform_data\" \"a\" {\n  count = 3\n  input = count.index\n}\n")],
        change: &[("a.tf", Some("resource \"terraform_data\" \"a\" {\n  count = 2\n  input = \"n${count.index}\"\n}\n"))],
        ..Case::default()
    };
    count_taken_away => Case {
        base: &[("a.tf", "resource \"terraform_data\" \"a\" {\n  count = 2\n}\n")],
        change: &[("a.tf", Some("resource \"terraform_data\" \"a\" {}\n"))],
        ..Case::default()
    };
    for_each_with_odd_keys => Case {
        base: &[("a.tf", "resource \"terraform_data\" \"a\" {\n  for_each = toset([\"a.b\", \"q\\\"uote\", \"br[0]\", \"$${x}\", \"ü \"])\n  input = 1\n}\n")],
        change: &[("a.tf", Some("resource \"terraform_data\" \"a\" {\n  for_each = toset([\"a.b\", \"q\\\"uote\", \"br[0]\", \"$${x}\", \"new/one\"])\n  input = 2\n}\n"))],
        ..Case::default()
    };
    tfvars_and_auto_tfvars => Case {
        base: &[
            ("a.tf", "variable \"one\" {}\nvariable \"two\" {}\nresource \"terraform_data\" \"a\" {\n  input = [var.one, var.two]\n}\n"),
            ("terraform.tfvars", "one = 1\n"),
            ("x.auto.tfvars", "two = 2\n"),
        ],
        change: &[("x.auto.tfvars", Some("two = 3\n"))],
        ..Case::default()
    };
    var_flag => Case {
        base: &[("a.tf", "variable \"v\" {}\nresource \"terraform_data\" \"a\" {\n  input = var.v\n}\nresource \"terraform_data\" \"b\" {\n  input = 1\n}\n")],
        change: &[("a.tf", Some("variable \"v\" {}\nresource \"terraform_data\" \"a\" {\n  input = \"x${var.v}\"\n}\nresource \"terraform_data\" \"b\" {\n  input = 1\n}\n"))],
        flags: &["-var=v=1"],
        ..Case::default()
    };
    json_syntax => Case {
        base: &[("a.tf.json", "{\"resource\":{\"terraform_data\":{\"a\":{\"input\":\"${terraform_data.base.id}\"}}}}")],
        change: &[("a.tf.json", Some("{\"resource\":{\"terraform_data\":{\"a\":{\"input\":\"x-${terraform_data.base.id}\"}}}}"))],
        selection: &["-f", "a.tf.json"],
        ..Case::default()
    };
    override_files => Case {
        base: &[
            ("a.tf", "resource \"terraform_data\" \"a\" {\n  input = 1\n}\n"),
            ("a_override.tf", "resource \"terraform_data\" \"a\" {\n  input = 2\n}\n"),
        ],
        change: &[("a_override.tf", Some("resource \"terraform_data\" \"a\" {\n  input = terraform_data.base.id\n}\n"))],
        ..Case::default()
    };
    heredocs => Case {
        base: &[("a.tf", "resource \"terraform_data\" \"a\" {\n  input = <<-EOT\n    one ${terraform_data.base.id}\n    EOT\n}\n")],
        change: &[("a.tf", Some("resource \"terraform_data\" \"a\" {\n  input = <<-EOT\n    two ${terraform_data.base.id}\n    EOT\n}\n"))],
        ..Case::default()
    };
    file_function => Case {
        base: &[("a.tf", "resource \"terraform_data\" \"a\" {\n  input = file(\"text.txt\")\n}\n"), ("text.txt", "1")],
        change: &[("text.txt", Some("2"))],
        ..Case::default()
    };
    templatefile_function => Case {
        base: &[
            ("a.tf", "resource \"terraform_data\" \"a\" {\n  input = templatefile(\"${path.module}/t.tpl\", { x = terraform_data.b.output })\n}\n"),
            ("b.tf", "resource \"terraform_data\" \"b\" {\n  input = \"b\"\n}\n"),
            ("t.tpl", "x is ${x}"),
        ],
        change: &[("t.tpl", Some("x was ${x}"))],
        ..Case::default()
    };
    relative_module_and_data_paths => Case {
        base: &[
            ("a.tf", "module \"m\" {\n  source = \"./one/../two\"\n}\n"),
            ("two/m.tf", "resource \"terraform_data\" \"r\" {\n  input = [path.module, path.root, file(\"${path.module}/../text.txt\")]\n}\n"),
            ("one/keep.txt", ""),
            ("text.txt", "1"),
        ],
        change: &[("text.txt", Some("2"))],
        scope: &["module.m"],
        ..Case::default()
    };
    provider_aliases => Case {
        base: &[
            ("p.tf", "provider \"terraform\" {\n  alias = \"west\"\n}\n"),
            ("a.tf", "resource \"terraform_data\" \"a\" {\n  provider = terraform.west\n  input = 1\n}\nmodule \"m\" {\n  source = \"./m\"\n  providers = {\n    terraform = terraform.west\n  }\n}\n"),
            ("m/m.tf", "resource \"terraform_data\" \"r\" {\n  input = 1\n}\n"),
        ],
        change: &[
            ("a.tf", Some("resource \"terraform_data\" \"a\" {\n  provider = terraform.west\n  input = 2\n}\nmodule \"m\" {\n  source = \"./m\"\n  providers = {\n    terraform = terraform.west\n  }\n}\n")),
            ("m/m.tf", Some("resource \"terraform_data\" \"r\" {\n  input = 2\n}\n")),
        ],
        scope: &["terraform_data.a", "module.m"],
        ..Case::default()
    };
    depends_on => Case {
        base: &[
            ("a.tf", "resource \"terraform_data\" \"a\" {\n  input = 1\n  depends_on = [module.m]\n}\n"),
            ("b.tf", "module \"m\" {\n  source = \"./m\"\n}\n"),
            ("m/m.tf", "resource \"terraform_data\" \"r\" {}\n"),
        ],
        change: &[("a.tf", Some("resource \"terraform_data\" \"a\" {\n  input = 2\n  depends_on = [module.m]\n}\n"))],
        ..Case::default()
    };
    replace_triggered_by => Case {
        base: &[
            ("a.tf", "resource \"terraform_data\" \"t\" {\n  input = 1\n}\nresource \"terraform_data\" \"a\" {\n  lifecycle {\n    replace_triggered_by = [terraform_data.t]\n  }\n}\n"),
        ],
        change: &[("a.tf", Some("resource \"terraform_data\" \"t\" {\n  input = 2\n}\nresource \"terraform_data\" \"a\" {\n  lifecycle {\n    replace_triggered_by = [terraform_data.t]\n  }\n}\n"))],
        scope: &["terraform_data.a", "terraform_data.t"],
        ..Case::default()
    };
    moved => Case {
        base: &[("a.tf", "resource \"terraform_data\" \"old\" {\n  input = 1\n}\n")],
        change: &[("a.tf", Some("resource \"terraform_data\" \"a\" {\n  input = 1\n}\nmoved {\n  from = terraform_data.old\n  to = terraform_data.a\n}\n"))],
        ..Case::default()
    };
    moved_between_files => Case {
        base: &[("old.tf", "resource \"terraform_data\" \"old\" {\n  input = 1\n}\n")],
        change: &[
            ("old.tf", None),
            ("a.tf", Some("resource \"terraform_data\" \"a\" {\n  input = 1\n}\n")),
            ("moves.tf", Some("moved {\n  from = terraform_data.old\n  to = terraform_data.a\n}\n")),
        ],
        ..Case::default()
    };
    removed => Case {
        base: &[("a.tf", "resource \"terraform_data\" \"a\" {\n  input = 1\n}\n")],
        change: &[("a.tf", Some("removed {\n  from = terraform_data.a\n  lifecycle {\n    destroy = false\n  }\n}\n"))],
        ..Case::default()
    };
    import => Case {
        base: &[("b.tf", "resource \"terraform_data\" \"b\" {}\n")],
        change: &[("a.tf", Some("import {\n  to = terraform_data.a\n  id = \"an-id\"\n}\nresource \"terraform_data\" \"a\" {}\n"))],
        ..Case::default()
    };
    check_block => Case {
        base: &[("a.tf", "resource \"terraform_data\" \"a\" {\n  input = 1\n}\ncheck \"c\" {\n  assert {\n    condition = terraform_data.a.output == 1\n    error_message = \"no\"\n  }\n}\n")],
        change: &[("a.tf", Some("resource \"terraform_data\" \"a\" {\n  input = 2\n}\ncheck \"c\" {\n  assert {\n    condition = terraform_data.a.output == 1\n    error_message = \"no\"\n  }\n}\n"))],
        ..Case::default()
    };
    output_of_a_partly_selected_count => Case {
        base: &[
            ("a.tf", "resource \"terraform_data\" \"a\" {\n  count = 3\n  input = \"1-${count.index}\"\n}\noutput \"all\" {\n  value = terraform_data.a[*].output\n}\n"),
        ],
        change: &[("a.tf", Some("resource \"terraform_data\" \"a\" {\n  count = 3\n  input = count.index == 1 ? \"2\" : \"1-${count.index}\"\n}\noutput \"all\" {\n  value = terraform_data.a[*].output\n}\n"))],
        selection: &["--target", "terraform_data.a[1]"],
        ..Case::default()
    };
    data_sources => Case {
        base: &[
            ("a.tf", "data \"terraform_remote_state\" \"d\" {\n  backend = \"local\"\n  config = {\n    path = \"${path.module}/other.tfstate\"\n  }\n}\nresource \"terraform_data\" \"a\" {\n  input = data.terraform_remote_state.d.outputs.x\n}\n"),
            ("other.tfstate", "{\"version\":4,\"outputs\":{\"x\":{\"value\":\"1\",\"type\":\"string\"}}}"),
        ],
        change: &[("other.tfstate", Some("{\"version\":4,\"outputs\":{\"x\":{\"value\":\"2\",\"type\":\"string\"}}}"))],
        ..Case::default()
    };
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn a_change_that_waits_in_a_dependency_is_not_taken_along() {
    let case = Case {
        base: &[(
            "a.tf",
            "resource \"terraform_data\" \"a\" {\n  input = terraform_data.other.output\n}\n",
        )],
        ..Case::default()
    };
    let site = case.deploy();
    case.change(&site);
    site.kl(&["apply", "-f", "a.tf", "--auto-approve"])
        .expect(1)
        .says("the plan goes beyond its scope")
        .says("terraform_data.other would be updated")
        .says("add it with --target");
    assert_eq!(site.input_of("terraform_data.other"), "1");
    site.apply(&["-f", "a.tf", "--target", "terraform_data.other"]);
    assert_eq!(site.input_of("terraform_data.a"), "2");
}

/// What kl wrote has its file recorded, so a deletion is seen; plain Terraform records none.
fn deployed_by_kl(files: &[(&str, &str)], selection: &[&str]) -> Site {
    let site = Site::new(files);
    site.write("other.tf", &OTHER.replace("VALUE", "1"));
    let mut all = selection.to_vec();
    all.extend(["-f", "other.tf"]);
    site.apply(&all);
    site
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn deleted_block() {
    let files = [
        (
            "a.tf",
            "resource \"terraform_data\" \"a\" {}\nresource \"terraform_data\" \"b\" {}\nmodule \"m\" {\n  source = \"./m\"\n}\n",
        ),
        (
            "m/m.tf",
            "resource \"terraform_data\" \"r\" {\n  count = 2\n}\n",
        ),
    ];
    let site = deployed_by_kl(&files, &["-f", "a.tf"]);
    let case = Case {
        change: &[("a.tf", Some("resource \"terraform_data\" \"a\" {}\n"))],
        scope: &["terraform_data.a", "terraform_data.b", "module.m"],
        ..Case::default()
    };
    case.change(&site);
    case.compare(&site);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn deleted_file() {
    let files = [(
        "a.tf",
        "resource \"terraform_data\" \"a\" {\n  for_each = toset([\"x\", \"y\"])\n}\n",
    )];
    let site = deployed_by_kl(&files, &["-f", "a.tf"]);
    let case = Case {
        change: &[("a.tf", None)],
        ..Case::default()
    };
    case.change(&site);
    case.compare(&site);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn an_orphan_of_unknown_origin_is_named_and_goes_when_it_is_targeted() {
    let case = Case {
        base: &[
            (
                "a.tf",
                "resource \"terraform_data\" \"a\" {\n  input = 1\n}\n",
            ),
            (
                "gone.tf",
                "module \"gone\" {\n  source = \"./m\"\n  for_each = toset([\"k\"])\n}\n",
            ),
            ("m/m.tf", "resource \"terraform_data\" \"r\" {}\n"),
        ],
        change: &[
            ("gone.tf", None),
            (
                "a.tf",
                Some("resource \"terraform_data\" \"a\" {\n  input = 2\n}\n"),
            ),
        ],
        ..Case::default()
    };
    let site = case.deploy();
    case.change(&site);
    site.kl(&["plan", "-f", "a.tf"])
        .expect(0)
        .says("module.gone.terraform_data.r")
        .says("not part of this run");
    case.compare(&site);
    let case = Case {
        selection: &["--target", "module.gone.terraform_data.r"],
        scope: &["module.gone"],
        ..Case::default()
    };
    case.compare(&site);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn tainted() {
    let case = Case {
        base: &[("a.tf", "resource \"terraform_data\" \"a\" {}\n")],
        ..Case::default()
    };
    let site = case.deploy();
    site.terraform_ok(&["taint", "terraform_data.a"]);
    case.change(&site);
    case.compare(&site);
}

#[test]
#[ignore = "needs cargo xtask stack"]
fn deposed() {
    let case = Case {
        base: &[("a.tf", "resource \"terraform_data\" \"a\" {}\n")],
        ..Case::default()
    };
    let site = case.deploy();
    // A create-before-destroy that was cut off leaves the old object behind, like this.
    let pulled = site.kl(&["pull"]).expect(0).stdout();
    let mut document: serde_json::Value = serde_json::from_str(&pulled).unwrap();
    let resource = &mut document["resources"][0];
    assert_eq!(resource["name"], "a");
    let mut deposed = resource["instances"][0].clone();
    deposed["deposed"] = "0a1b2c3d".into();
    deposed["attributes"]["id"] = "old".into();
    resource["instances"].as_array_mut().unwrap().push(deposed);
    document["serial"] = (document["serial"].as_u64().unwrap() + 1).into();
    site.0
        .import(serde_json::to_string_pretty(&document).unwrap());
    site.remove("import.json");
    case.change(&site);
    case.compare(&site);
}
