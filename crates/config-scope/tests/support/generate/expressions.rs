//! Random expressions over what a scope offers.

use super::{Rng, blocks::Offer};

/// How many instances something has.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Many {
    One,
    Count,
    Keyed,
}

/// Keys that are hard to read: dots, quotes, brackets, templates, non-ASCII.
pub(crate) const ODD_KEYS: &[&str] = &[
    "\"a.b\"",
    "\"x[\\\"y\\\"]\"",
    "\"ü$${z}\"",
    "\"%%{if}\"",
    "\"module.m\"",
    "\"plain\"",
    "\"\\u00e9\\n\"",
];

/// An expression on one line.
pub(crate) fn expression(rng: &mut Rng, offers: &[Offer], depth: usize) -> String {
    let inner = |rng: &mut Rng| expression(rng, offers, depth + 1);
    if depth > 2 || rng.chance(35) {
        return term(rng, offers);
    }
    match rng.below(34) {
        0 => format!("\"${{{}}}-x\"", inner(rng)),
        1 => format!("[{}, {}]", inner(rng), inner(rng)),
        2 => format!(
            "{{ k = {}, \"k-${{{}}}\" = 1, (\"p\") = 2 }}",
            inner(rng),
            inner(rng)
        ),
        3 => format!("{{ ({}) = {}, decoy : 2 }}", inner(rng), inner(rng)),
        4 => format!(
            "{} == \"\" ? {} : {}",
            term(rng, offers),
            inner(rng),
            inner(rng)
        ),
        5 => format!("try({}, null)", inner(rng)),
        6 => format!(
            "join(\",\", [for i, v in [{}] : \"${{i}}${{v}}\" if v != {}])",
            inner(rng),
            inner(rng)
        ),
        7 => format!(
            "{{ for k, v in {{ a = {} }} : k => {}... }}",
            inner(rng),
            inner(rng)
        ),
        8 => format!("jsonencode({{ x = [{}] }})", inner(rng)),
        9 => format!("lookup({{ a = 1 }}, {}, {})", inner(rng), inner(rng)),
        10 => format!("!({} == 1) && true", inner(rng)),
        11 => format!(
            "\"%{{ if {} == 1 ~}}a%{{ else }}${{{}}}%{{ endif }}\"",
            term(rng, offers),
            inner(rng)
        ),
        12 => format!("\"%{{ for x in [{}] ~}}${{x}}%{{ endfor }}\"", inner(rng)),
        13 => format!(
            "\"$${{terraform_data.decoy.output}}${{{}}}%%{{ x }}\"",
            inner(rng)
        ),
        14 => format!(
            "[for terraform_data in [{}] : {}]",
            inner(rng),
            decoy(rng, offers)
        ),
        15 => format!("[for local in [{}] : local.decoy]", inner(rng)),
        16 => format!(
            "templatefile(\"${{path.module}}/t.tpl\", {{ a = {} }})",
            inner(rng)
        ),
        17 => format!("concat([{}]...)", inner(rng)),
        18 => format!("\"a \\\"${{{}}}\\\" \\u00e9 \\\\\"", inner(rng)),
        19 => format!("/* {} */ {}", decoy(rng, offers), inner(rng)),
        20 => format!("-1 + {} * 2 - {}", term(rng, offers), term(rng, offers)),
        21 => format!("({})", inner(rng)),
        22 => format!(
            "\"{}{{{}}}\" == {}",
            rng.pick(SIGNS),
            decoy(rng, offers),
            term(rng, offers)
        ),
        23 => format!(
            "{{\"${{{}}}\" = 1}}[{}]",
            term(rng, offers),
            term(rng, offers)
        ),
        25 => format!("{{ k = {}, k = {}, \"k\" = 1 }}", inner(rng), inner(rng)),
        26 => format!("provider::terraform::encode_expr({})", inner(rng)),
        27 => format!(
            "[\n  {}, # terraform_data.decoy\n\n  // ${{terraform_data.decoy}}\n  {},\n]",
            inner(rng),
            inner(rng)
        ),
        28 => format!(
            "(\n  {} == 1 ?\n  {} :\n  {}\n)",
            term(rng, offers),
            inner(rng),
            inner(rng)
        ),
        29 => format!(
            "{{\n a = {}\n\n b : {}, /* c */\n}}",
            inner(rng),
            inner(rng)
        ),
        30 => format!("trimspace(<<EOT\n a ${{{}}} b\nEOT\n)", term(rng, offers)),
        31 => format!(
            "\"${{[for x in [{}] : \"${{x}}-${{{}}}\"][0]}}\"",
            inner(rng),
            inner(rng)
        ),
        32 => format!(
            "{{ for k, v in {{ a = {} }} : v => k if k != {} }}",
            inner(rng),
            inner(rng)
        ),
        33 => format!("\t[ for v in [{}]: {} ]", inner(rng), inner(rng)),
        _ => format!("merge({{}}, {{ a = {} }}, {})", inner(rng), inner(rng)),
    }
}

/// Signs before a brace: whether a template begins there depends on how many there are.
const SIGNS: &[&str] = &["$", "$$", "$$$", "$$$$", "$$$$$", "%%", "%%%%", "%$", "$%$"];

/// Something that would be a reference in another place; what it is here, Terraform decides.
fn decoy(rng: &mut Rng, offers: &[Offer]) -> String {
    let managed = offers.iter().filter_map(|offer| match offer {
        Offer::Managed { name, .. } => Some(name),
        _ => None,
    });
    let names: Vec<&String> = managed.collect();
    match names.is_empty() {
        true => "terraform_data.decoy.id".to_owned(),
        false => format!("terraform_data.{}.id", rng.pick(&names)),
    }
}

/// The text of a heredoc.
pub(crate) fn heredoc(rng: &mut Rng, offers: &[Offer]) -> String {
    let lines = [
        format!("    text ${{{}}} \"unbalanced", term(rng, offers)),
        format!(
            "    %{{ for r in [{}] ~}}\n    - ${{r}} ${{{}}}\n    %{{ endfor ~}}",
            term(rng, offers),
            term(rng, offers)
        ),
        format!("    %{{ if {} == 1 }}x%{{ endif }}", term(rng, offers)),
        format!(
            "    EOT in the middle }} # no comment $${{{}}}",
            decoy(rng, offers)
        ),
        format!("    {}{{{}}}", rng.pick(SIGNS), decoy(rng, offers)),
        format!("    \\${{{}}} \\n", decoy(rng, offers)),
        "    EOTS".to_owned(),
        "    ${jsonencode({\n      a = terraform_data.missing\n    })}".to_owned(),
        String::new(),
    ];
    if rng.chance(10) {
        return String::new();
    }
    (0..=rng.below(4))
        .map(|_| rng.pick(&lines).clone())
        .collect::<Vec<_>>()
        .join("\n")
}

/// A reference, or a literal.
pub(crate) fn term(rng: &mut Rng, offers: &[Offer]) -> String {
    if offers.is_empty() || rng.chance(15) {
        let plain = [
            "\"x\"",
            "1",
            "null",
            "true",
            "path.module",
            "terraform.workspace",
            "-2.5e3",
        ];
        return (*rng.pick(&plain)).to_owned();
    }
    let offer = rng.pick(offers).clone();
    match &offer {
        Offer::Managed { name, many } => {
            let name = if rng.chance(15) {
                format!("resource.terraform_data.{name}")
            } else {
                format!("terraform_data.{name}")
            };
            instance(
                rng,
                &name,
                *many,
                &["output", "id", "output[\"k\"]", "output.a.0.b"],
            )
        }
        Offer::Data { name, many } => {
            let name = format!("data.terraform_remote_state.{name}");
            instance(
                rng,
                &name,
                *many,
                &["outputs.x", "outputs[\"y\"]", "outputs"],
            )
        }
        Offer::Local(name) => {
            let forms = ["", ".a", "[\"b\"]", "[0].c", ".*.d", "[*].e"];
            format!("local.{name}{}", rng.pick(&forms))
        }
        Offer::Variable(name) => {
            let forms = ["", ".a", "[\"b\"].c"];
            format!("var.{name}{}", rng.pick(&forms))
        }
        Offer::Module {
            call,
            outputs,
            many,
        } => {
            let output = rng.pick(outputs).clone();
            let whole = [
                "",
                "[*]",
                "[\"${\"a\"}\"]",
                "[(\"a\")]",
                "[local.none]",
                ".*",
            ];
            if rng.chance(25) {
                return format!("module.{call}{}", rng.pick(&whole));
            }
            let key = match many {
                Many::One => "",
                Many::Count => rng.pick(&["[0]", ".0", "[count.index]", "[*]"]),
                Many::Keyed => rng.pick(&["[\"a.b\"]", "[each.key]", "[\"x\"]"]),
            };
            let rest = ["", ".a", "[0]", "[\"k\"].b"];
            format!("module.{call}{key}.{output}{}", rng.pick(&rest))
        }
    }
}

fn instance(rng: &mut Rng, name: &str, many: Many, attributes: &[&str]) -> String {
    let attribute = *rng.pick(attributes);
    match (many, rng.below(5)) {
        (_, 0) => name.to_owned(),
        (Many::One, _) => format!("{name}.{attribute}"),
        (Many::Count, 1) => format!("{name}[*].{attribute}"),
        (Many::Count, 2) => format!("{name}.*.{attribute}"),
        (Many::Count, 3) => format!("{name}.0.{attribute}"),
        (Many::Count, _) => format!("{name}[count.index].{attribute}"),
        (Many::Keyed, 1) => format!("values({name})[*].{attribute}"),
        (Many::Keyed, 2) => format!("{name}[each.key].{attribute}"),
        (Many::Keyed, _) => format!("{name}[{}].{attribute}", rng.pick(ODD_KEYS)),
    }
}
