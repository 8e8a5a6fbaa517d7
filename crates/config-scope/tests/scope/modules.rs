//! Modules, provider configurations, root outputs and variables, and what is not understood.

use std::collections::BTreeSet;

use config_scope::{DoubtKind, Flavour, Repetition};

use crate::references::{load, load_as, needs};

#[test]
fn a_resource_needs_what_configures_its_provider() {
    let root = load(&[
        (
            "main.tf",
            r#"
        provider "cloud" { token = a.default.id }
        provider "cloud" {
          alias = "west"
          token = a.west.id
        }
        provider "kube" {
          host = module.plain.endpoint
        }
        resource "cloud_thing" "implied" {}
        resource "cloud_thing" "named" { provider = cloud.west }
        resource "cloud_thing" "quoted" { provider = "cloud.west" }
        resource "kube_thing" "k" {}
        resource "other" "function" { value = provider::cloud::parse("x") }
        module "plain" { source = "./m" }
        module "passed" {
          source    = "./m"
          providers = { cloud = cloud.west }
        }
        module "renamed" {
          source    = "./n"
          providers = { mist.deep = cloud.west }
        }
        resource "a" "default" {}
        resource "a" "west" {}
        "#,
        ),
        (
            "m/main.tf",
            r#"
        resource "cloud_thing" "x" {}
        output "endpoint" { value = cloud_thing.x.id }
        "#,
        ),
        (
            "n/main.tf",
            r#"
        terraform {
          required_providers {
            mist = {
              source                = "hashicorp/cloud"
              configuration_aliases = [mist.deep]
            }
          }
        }
        resource "mist_thing" "inherits" {}
        resource "mist_thing" "aliased" { provider = mist.deep }
        resource "mist_thing" "lost" { provider = mist.nowhere }
        "#,
        ),
    ]);
    assert_eq!(root.doubts(), []);
    for (address, expected) in [
        ("cloud_thing.implied", &["a.default"][..]),
        ("cloud_thing.named", &["a.west"]),
        ("cloud_thing.quoted", &["a.west"]),
        ("kube_thing.k", &["module.plain.cloud_thing.x"]),
        ("other.function", &["a.default"]),
        ("module.plain.cloud_thing.x", &["a.default"]),
        ("module.passed.cloud_thing.x", &["a.west"]),
        ("module.renamed.mist_thing.inherits", &["a.default"]),
        ("module.renamed.mist_thing.aliased", &["a.west"]),
        ("module.renamed.mist_thing.lost", &["a.default", "a.west"]),
    ] {
        assert_eq!(needs(&root, address), expected, "{address}");
    }
}

#[test]
fn opentofu_reads_its_own_files_and_provider_instances() {
    let files = [
        ("main.tf", "resource \"x\" \"old\" {}\n"),
        (
            "main.tofu",
            r#"
        provider "cloud" {
          alias    = "by"
          for_each = a.regions.set
        }
        resource "cloud_x" "it" { provider = cloud.by[a.key.id] }
        resource "a" "regions" {}
        resource "a" "key" {}
        "#,
        ),
    ];
    let tofu = load_as(Flavour::OpenTofu, &files);
    assert_eq!(needs(&tofu, "cloud_x.it"), ["a.key", "a.regions"]);
    let terraform = load(&files);
    assert_eq!(
        terraform
            .nodes()
            .map(|node| node.address.to_string())
            .collect::<Vec<_>>(),
        ["x.old"]
    );
}

#[test]
fn installed_modules_are_found_through_the_manifest() {
    let files = [
        (
            "main.tf",
            r#"
        module "net" {
          source  = "registry.example/net/any"
          version = "1.0.0"
          in      = a.one.id
        }
        resource "x" "it" { value = module.net.out }
        resource "a" "one" {}
        "#,
        ),
        (
            "modules.json",
            r#"{"Modules":[
            {"Key":"","Source":"","Dir":"."},
            {"Key":"net","Source":"registry.example/net/any","Version":"1.0.0","Dir":".terraform/modules/net/sub"},
            {"Key":"net.peer","Source":"git::https://example/peer","Dir":".terraform/modules/net.peer"}]}"#,
        ),
        (
            ".terraform/modules/net/sub/main.tf",
            r#"
        variable "in" {}
        module "near" {
          source = "../near"
          v      = var.in
        }
        module "peer" { source = "git::https://example/peer" }
        output "out" { value = module.near.o }
        "#,
        ),
        (
            ".terraform/modules/net/near/main.tf",
            "variable \"v\" {}\nresource \"x\" \"n\" { v = var.v }\noutput \"o\" { value = x.n.id }\n",
        ),
        (
            ".terraform/modules/net.peer/main.tf",
            "resource \"x\" \"p\" {}\n",
        ),
    ];
    let root = load(&files);
    assert_eq!(root.doubts(), []);
    assert_eq!(needs(&root, "x.it"), ["module.net.module.near.x.n"]);
    assert_eq!(needs(&root, "module.net.module.near.x.n"), ["a.one"]);
    assert!(
        root.nodes()
            .any(|node| node.address.to_string() == "module.net.module.peer.x.p")
    );
}

#[test]
fn an_unknown_module_stands_for_all_it_is_given() {
    let root = load(&[(
        "main.tf",
        r#"
        module "far" {
          source     = "registry.example/far/any"
          a          = a.one.id
          depends_on = [a.two]
        }
        module "gone" { source = "./gone" }
        module "computed" { source = "./${var.where}" }
        module "self" { source = "./." }
        resource "x" "it" { value = module.far.out }
        resource "x" "all" { value = module.far }
        resource "a" "one" {}
        resource "a" "two" {}
    "#,
    )]);
    assert_eq!(needs(&root, "x.it"), ["a.one", "a.two"]);
    assert_eq!(needs(&root, "x.all"), ["a.one", "a.two"]);
    let doubts: Vec<String> = root.doubts().iter().map(ToString::to_string).collect();
    assert_eq!(
        doubts,
        [
            "main.tf:8: module.computed is not known: its source is computed",
            "main.tf:2: module.far is not known: it is not installed; run init",
            "main.tf:7: module.gone is not known: there is no configuration in gone",
            "main.tf:9: module.self is not known: it calls itself",
        ]
    );
    assert!(
        root.doubts()
            .iter()
            .all(|doubt| doubt.kind == DoubtKind::UnknownModule)
    );
}

#[test]
fn what_is_not_understood_is_told_with_its_place() {
    let root = load(&[
        (
            "a.tf",
            "resource \"x\" \"a\" {}\nresource \"x\" \"b\" {\n  v = [1,\n",
        ),
        (
            "b.tf",
            "resource \"x\" \"ok\" { count = 2 }\n\nsomething \"new\" {}\n",
        ),
        ("c.tf", "# fine\nresource \"only_one_label\" {}\n"),
        (
            "d.tf.json",
            "{\n \"resource\": {\"x\": {\"j\": {\"v\": \"${1 +}\"}}}}",
        ),
        (
            "e.tf",
            "\u{feff}locals {\n  a = <<EOT\nx\nEOT )\n  b = 1\n}\n",
        ),
        (
            "f.tf",
            b"locals {\n a = \"\xff\"\n}\n"
                .escape_ascii()
                .to_string()
                .as_str(),
        ),
    ]);
    let told: Vec<(String, DoubtKind)> = root
        .doubts()
        .iter()
        .map(|doubt| (doubt.at.to_string(), doubt.kind))
        .collect();
    for expected in [
        ("a.tf:3", DoubtKind::Unparsed),
        ("b.tf:3", DoubtKind::NotUnderstood),
        ("c.tf:2", DoubtKind::NotUnderstood),
        ("d.tf.json:2", DoubtKind::Unparsed),
    ] {
        assert!(
            told.contains(&(expected.0.to_owned(), expected.1)),
            "{expected:?} in {told:?}"
        );
    }
    assert_eq!(
        root.unparsed()
            .filter(|doubt| doubt.at.file.as_str() == "e.tf")
            .count(),
        1
    );
    // The rest is known all the same.
    let ok = root.find_node(&"x.ok".parse().unwrap()).unwrap();
    assert_eq!(
        (ok.at.to_string().as_str(), ok.repetition),
        ("b.tf:1", Some(Repetition::Count))
    );
    assert!(root.find_node(&"x.a".parse().unwrap()).is_none());
}

#[test]
fn no_heredoc_swallows_what_comes_after_it() {
    let swallowing =
        "EOT\n}\nresource \"x\" \"it\" {}\nvariable \"w\" {\n  description = <<EOT\nx\nEOT\n}\n";
    let read = format!("variable \"v\" {{\n  # see <<EOT\n  description = <<EOT\n{swallowing}");
    let configuration = load(&[("main.tf", &read)]);
    assert_eq!(configuration.doubts(), []);
    assert!(needs(&configuration, "x.it").is_empty());
    let unread =
        format!("variable \"v\" {{\n/* see <<EOT\n*/\n  description = <<EOT\n{swallowing}");
    assert_eq!(load(&[("main.tf", &unread)]).unparsed().count(), 1);
}

#[test]
fn outputs_and_variables_of_the_root_are_known() {
    let root = load(&[
        (
            "main.tf",
            r#"
        variable "needed" {}
        variable "secret" {
          default   = "x"
          sensitive = true
        }
        variable "unused" { default = 1 }
        module "m" {
          source = "./m"
          v      = var.needed
        }
        resource "a" "one" { v = module.m.o }
        resource "a" "two" { v = var.secret }
        output "o" {
          value     = a.one.id
          sensitive = true
        }
        output "constant" { value = 1 }
    "#,
        ),
        (
            "m/main.tf",
            "variable \"v\" {}\noutput \"o\" { value = var.v }\n",
        ),
    ]);
    let outputs = root.outputs();
    assert_eq!(
        outputs
            .iter()
            .map(|output| output.name.as_str())
            .collect::<Vec<_>>(),
        ["constant", "o"]
    );
    assert!(outputs[0].dependencies.is_empty());
    assert!(outputs[1].sensitive && outputs[1].dependencies.contains(&"a.one".parse().unwrap()));
    let used = |address: &str| root.referenced_variables([&address.parse().unwrap()]);
    assert_eq!(used("a.one"), BTreeSet::from(["needed".to_owned()]));
    assert_eq!(used("a.two"), BTreeSet::from(["secret".to_owned()]));
    let required: Vec<String> = root
        .variables()
        .into_iter()
        .filter(|variable| !variable.has_default)
        .map(|variable| variable.name)
        .collect();
    assert_eq!(required, ["needed"]);
}
