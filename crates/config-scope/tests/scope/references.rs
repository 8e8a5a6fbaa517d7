//! Ways to depend on something that Terraform's graph of built-in resources cannot show:
//! provider configurations, nested blocks of real providers, newer and other clients.

use config_scope::{ConfigAddress, Configuration, Flavour, MemoryTree, ParseCache};

pub(crate) fn load(files: &[(&str, &str)]) -> Configuration {
    load_as(Flavour::Terraform, files)
}

pub(crate) fn load_as(flavour: Flavour, files: &[(&str, &str)]) -> Configuration {
    let mut tree = MemoryTree::new();
    for (path, text) in files {
        match *path {
            "modules.json" => tree.set_manifest(*text),
            _ => tree.insert(path, *text),
        }
    }
    Configuration::load_with(&tree, flavour, &ParseCache::new()).expect("a root module")
}

pub(crate) fn needs(configuration: &Configuration, address: &str) -> Vec<String> {
    let address: ConfigAddress = address.parse().expect("an address");
    assert!(
        configuration.find_node(&address).is_some(),
        "{address} is not declared"
    );
    configuration
        .dependencies(&address)
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[track_caller]
fn assert_needs(text: &str, expected: &[&str]) {
    let configuration = load(&[("main.tf", text)]);
    assert_eq!(configuration.doubts(), []);
    assert_eq!(needs(&configuration, "x.it"), expected);
}

#[test]
fn nested_and_dynamic_blocks_are_searched() {
    assert_needs(
        r#"
        resource "x" "it" {
          rule {
            deep { value = a.one.id }
          }
          dynamic "set" {
            for_each = a.two
            iterator = each_set
            labels   = [a.three.id]
            content {
              value = each_set.value + a.four[each_set.key].id
              dynamic "inner" {
                for_each = each_set.value[local.via]
                content { value = inner.value }
              }
            }
          }
          lifecycle { ignore_changes = [a.none] }
        }
        locals { via = a.five.id }
        resource "a" "one" {}
        resource "a" "two" {}
        resource "a" "three" {}
        resource "a" "four" { for_each = {} }
        resource "a" "five" {}
        resource "a" "none" {}
        "#,
        &["a.five", "a.four", "a.one", "a.three", "a.two"],
    );
}

#[test]
fn names_in_quotes_and_bare_types_are_understood() {
    assert_needs(
        r#"
        resource "x" "it" {
          depends_on = ["a.one", "data.a.two"]
          lifecycle { replace_triggered_by = [a.three["k"].id] }
          value = keys(b)
        }
        resource "a" "one" {}
        data "a" "two" {}
        resource "a" "three" {}
        resource "b" "four" {}
        "#,
        &["data.a.two", "a.one", "a.three", "b.four"],
    );
}

#[test]
fn a_shadowed_name_is_not_what_it_shadows() {
    assert_needs(
        r#"
        resource "x" "it" {
          value = [for a, v in a.one.list : a.two if v == b.three]
        }
        resource "a" "one" {}
        resource "a" "two" {}
        resource "b" "three" {}
        "#,
        &["a.one", "b.three"],
    );
}

#[test]
fn ephemeral_resources_and_actions_pass_dependencies_on() {
    assert_needs(
        r#"
        ephemeral "secret" "s" { id = a.one.id }
        action "lambda" "run" {
          config { payload = a.two.id }
        }
        resource "x" "it" {
          password = ephemeral.secret.s.value
          lifecycle {
            action_trigger {
              events    = [after_create]
              condition = a.three.id != ""
              actions   = [action.lambda.run]
            }
          }
        }
        resource "a" "one" {}
        resource "a" "two" {}
        resource "a" "three" {}
        "#,
        &["ephemeral.secret.s", "a.three", "a.two"],
    );
}

#[test]
fn an_import_is_computed_with_its_resource() {
    let root = load(&[
        (
            "main.tf",
            r#"
        resource "x" "it" { for_each = {} }
        import {
          for_each = a.one.map
          to       = x.it[each.key]
          id       = "${each.value}-${a.two.id}"
        }
        import {
          to = module.m.x.inside
          id = a.three.id
        }
        module "m" { source = "./m" }
        resource "a" "one" {}
        resource "a" "two" {}
        resource "a" "three" {}
        "#,
        ),
        ("m/main.tf", "resource \"x\" \"inside\" {}\n"),
    ]);
    assert_eq!(needs(&root, "x.it"), ["a.one", "a.two"]);
    assert_eq!(needs(&root, "module.m.x.inside"), ["a.three"]);
    assert_eq!(root.imports()[1].to.to_string(), "module.m.x.inside");
}
