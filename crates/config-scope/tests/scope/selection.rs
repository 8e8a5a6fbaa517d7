//! What files and targets select beyond the shared cases.

use std::collections::BTreeSet;

use config_scope::{
    Confidence, ConfigAddress, Configuration, FileRole, MemoryTree, Selection, Selectors,
    SourcePath,
};

fn load(files: &[(&str, &str)]) -> Configuration {
    let mut tree = MemoryTree::new();
    for (path, text) in files {
        tree.insert(path, *text);
    }
    Configuration::load(&tree).expect("a root module")
}

fn select(configuration: &Configuration, files: &[&str], targets: &[&str]) -> Selection {
    configuration.select(&Selectors {
        files: files.iter().map(|file| SourcePath::new(file)).collect(),
        targets: targets
            .iter()
            .map(|target| target.parse().expect("a target"))
            .collect(),
    })
}

fn list(addresses: &BTreeSet<ConfigAddress>) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

/// Targets as they would be passed, with the call whose keys are missing.
fn plan(selection: &Selection) -> Vec<(String, Option<String>)> {
    let target = |plan: &config_scope::PlanTarget| {
        let call = plan.unkeyed_call.as_ref().map(ToString::to_string);
        (plan.target.to_string(), call)
    };
    selection.write.targets.iter().map(target).collect()
}

const KEYED: &[(&str, &str)] = &[
    (
        "main.tf",
        "module \"m\" {\n  source   = \"./m\"\n  for_each = toset([\"x\"])\n}\nmodule \"s\" {\n  source = \"./m\"\n}\n",
    ),
    (
        "m/main.tf",
        "resource \"t\" \"a\" {}\nmodule \"in\" {\n  source = \"../n\"\n  count  = 2\n}\n",
    ),
    ("n/main.tf", "resource \"t\" \"n\" {}\n"),
];

#[test]
fn a_target_into_a_repeated_module_tells_that_keys_are_missing() {
    let root = load(KEYED);
    assert_eq!(root.doubts(), []);
    for (target, call) in [
        ("module.m.t.a", Some("module.m")),
        ("module.m[\"x\"].t.a", None),
        ("module.s.t.a", None),
        ("module.m", None),
        ("module.s.module.in", None),
        ("module.s.module.in.t.n", Some("module.s.module.in")),
        ("module.s.module.in[1].t.n[0]", None),
        ("module.m.module.in[0]", Some("module.m")),
    ] {
        let selection = select(&root, &[], &[target]);
        assert_eq!(
            plan(&selection),
            [(target.to_owned(), call.map(str::to_owned))]
        );
        assert!(selection.unmatched.is_empty(), "{target}");
    }
}

#[test]
fn a_file_of_a_module_selects_in_every_module_made_from_it() {
    let root = load(KEYED);
    let selection = select(&root, &["m/main.tf"], &[]);
    let all = [
        "module.m.t.a",
        "module.m.module.in.t.n",
        "module.s.t.a",
        "module.s.module.in.t.n",
    ];
    assert_eq!(list(&selection.write.addresses), all);
    let modules: Vec<String> = selection
        .write
        .modules
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(modules, ["module.m.module.in", "module.s.module.in"]);
    let covered = plan(&select(&root, &["m/main.tf", "main.tf"], &["module.m.t.a"]));
    assert_eq!(
        covered,
        [("module.m".to_owned(), None), ("module.s".to_owned(), None)]
    );
}

#[test]
fn a_file_without_resources_tells_who_uses_it() {
    let root = load(&[
        (
            "main.tf",
            "resource \"t\" \"a\" {\n  v = local.one\n}\nresource \"t\" \"b\" {\n  v = t.a.id\n}\nresource \"t\" \"c\" {\n  v = module.m.o\n  w = templatefile(\"${path.module}/tpl/c.tpl\", {})\n}\nresource \"t\" \"d\" {\n  v = fileset(path.module, \"files/*\")\n  w = file(\"files/${t.a.id}.txt\")\n}\n",
        ),
        ("locals.tf", "locals {\n  one = var.v\n  two = 2\n}\n"),
        ("variables.tf", "variable \"v\" {}\n"),
        ("terraform.tfvars", "v = 1\n"),
        ("call.tf", "module \"m\" {\n  source = \"./m\"\n}\n"),
        ("m/out.tf", "output \"o\" {\n  value = t.x.id\n}\n"),
        ("m/main.tf", "resource \"t\" \"x\" {}\n"),
    ]);
    let report = |file: &str| root.declared_in(&SourcePath::new(file));
    for (file, role, affects) in [
        ("locals.tf", FileRole::Configuration, &["t.a"][..]),
        ("variables.tf", FileRole::Configuration, &["t.a"]),
        ("terraform.tfvars", FileRole::Variables, &["t.a"]),
        ("m/out.tf", FileRole::Configuration, &["t.c"]),
        ("tpl/c.tpl", FileRole::Input, &["t.c", "t.d"]),
        ("files/x.txt", FileRole::Input, &["t.d"]),
        ("../elsewhere.txt", FileRole::Unknown, &[]),
        ("m/unknown.tf", FileRole::Input, &["t.d"]),
    ] {
        let report = report(file);
        assert_eq!(report.role, role, "{file}");
        assert_eq!(list(&report.affects), affects, "{file}");
        assert!(report.selects_nothing(), "{file}");
    }
    let call = report("call.tf");
    assert_eq!(list(&call.affects), ["t.c"]);
    assert_eq!(call.calls.len(), 1);
}

#[test]
fn chains_of_moves_join_the_selection() {
    let root = load(&[
        (
            "main.tf",
            "resource \"t\" \"b3\" {\n  v = t.need.id\n}\nresource \"t\" \"need\" {}\nresource \"t\" \"user\" {\n  v = t.b3.id\n}\nmodule \"new\" {\n  source = \"./m\"\n}\n",
        ),
        (
            "moves.tf",
            "moved {\n  from = t.b2\n  to   = t.b3\n}\nmoved {\n  from = t.b\n  to   = t.b2\n}\nmoved {\n  from = module.old\n  to   = module.new\n}\n",
        ),
        (
            "m/main.tf",
            "resource \"t\" \"now\" {}\nmoved {\n  from = t.was\n  to   = t.now\n}\n",
        ),
    ]);
    let by_old_name = select(&root, &[], &["t.b"]);
    assert_eq!(list(&by_old_name.write.addresses), ["t.b3"]);
    assert_eq!(list(&by_old_name.write.former), ["t.b", "t.b2"]);
    assert_eq!(list(&by_old_name.closure), ["t.b3", "t.need"]);
    assert!(by_old_name.unmatched.is_empty());
    assert!(matches!(by_old_name.confidence, Confidence::Widened(_)));

    let reader = select(&root, &[], &["t.user"]);
    assert_eq!(list(&reader.write.addresses), ["t.user"]);
    assert_eq!(list(&reader.recorded_as), ["t.b", "t.b2"]);
    assert_eq!(reader.moves.len(), 2);
    assert!(reader.moves.iter().all(|touched| !touched.in_write_set));

    let module = select(&root, &[], &["module.old.t.was"]);
    assert_eq!(list(&module.write.addresses), ["module.new.t.now"]);
    let former = ["module.new.t.was", "module.old.t.now", "module.old.t.was"];
    assert_eq!(list(&module.write.former), former);
    assert_eq!(module.moves.len(), 2);

    let whole = select(&root, &[], &["module.old"]);
    assert!(whole.unmatched.is_empty());
    assert_eq!(list(&whole.write.addresses), ["module.new.t.now"]);

    let file = select(&root, &["moves.tf"], &[]);
    assert_eq!(list(&file.write.addresses), ["t.b3", "module.new.t.now"]);
}

#[test]
fn removed_blocks_name_what_is_gone() {
    let root = load(&[
        (
            "main.tf",
            "resource \"t\" \"a\" {}\nmodule \"m\" {\n  source = \"./m\"\n}\n",
        ),
        (
            "gone.tf",
            "removed {\n  from = t.gone\n  lifecycle {\n    destroy = false\n  }\n}\nremoved {\n  from = module.out\n}\n",
        ),
        ("m/main.tf", "removed {\n  from = t.inner\n}\n"),
    ]);
    let removed: Vec<(String, bool)> = root
        .removed()
        .iter()
        .map(|removed| (removed.from.to_string(), removed.destroy))
        .collect();
    let expected = [
        ("t.gone", false),
        ("module.out", true),
        ("module.m.t.inner", true),
    ];
    assert_eq!(
        removed,
        expected.map(|(name, destroy)| (name.to_owned(), destroy))
    );
    let by_file = select(&root, &["gone.tf"], &[]);
    assert_eq!(list(&by_file.write.former), ["t.gone"]);
    assert_eq!(plan(&by_file).len(), 2);
    for target in ["t.gone", "module.out", "module.out.t.x", "module.m.t.inner"] {
        assert!(
            select(&root, &[], &[target]).unmatched.is_empty(),
            "{target}"
        );
    }
    assert_eq!(
        select(&root, &[], &["module.nowhere", "t.b"])
            .unmatched
            .len(),
        2
    );
}

#[test]
fn a_doubt_anywhere_makes_every_selection_unsafe() {
    let root = load(&[
        ("main.tf", "resource \"t\" \"a\" {}\n"),
        ("bad.tf", "resource {\n"),
    ]);
    let selection = select(&root, &["bad.tf"], &["t.a"]);
    assert_eq!(selection.files[0].role, FileRole::Unparsed);
    let Confidence::Unsafe(why) = selection.confidence else {
        panic!("not safe")
    };
    assert!(why[0].starts_with("bad.tf:"), "{why:?}");
}
