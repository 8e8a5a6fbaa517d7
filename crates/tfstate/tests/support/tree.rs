//! JSON trees whose scalars are raw tokens: the slow, obvious counterpart of the crate's spans.

use proptest::prelude::*;
use proptest::sample::select;

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Tree {
    Scalar(String),
    Array(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

/// A member whose name and value are plain texts.
pub(crate) fn member(name: &str, value: Tree) -> (String, Tree) {
    (quoted(name), value)
}

pub(crate) fn text(value: &str) -> Tree {
    Tree::Scalar(quoted(value))
}

pub(crate) fn raw(token: &str) -> Tree {
    Tree::Scalar(token.to_owned())
}

pub(crate) fn quoted(value: &str) -> String {
    serde_json::to_string(value).expect("a string has a JSON form")
}

impl Tree {
    /// In Terraform's layout, the first line at `depth`.
    pub(crate) fn rendered(&self, depth: usize) -> String {
        let inner = "\n".to_owned() + &"  ".repeat(depth + 1);
        let outer = "\n".to_owned() + &"  ".repeat(depth);
        match self {
            Self::Scalar(token) => token.clone(),
            Self::Array(items) if items.is_empty() => "[]".to_owned(),
            Self::Object(members) if members.is_empty() => "{}".to_owned(),
            Self::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| item.rendered(depth + 1)).collect();
                format!("[{inner}{}{outer}]", items.join(&format!(",{inner}")))
            }
            Self::Object(members) => {
                let members: Vec<_> = members
                    .iter()
                    .map(|(name, value)| format!("{name}: {}", value.rendered(depth + 1)))
                    .collect();
                format!("{{{inner}{}{outer}}}", members.join(&format!(",{inner}")))
            }
        }
    }

    /// With white space from `blanks`, taken in turn.
    pub(crate) fn scattered<'b>(&self, blanks: &mut impl Iterator<Item = &'b str>) -> String {
        let mut out = String::new();
        self.scatter(blanks, &mut out);
        out
    }

    fn scatter<'b>(&self, blanks: &mut impl Iterator<Item = &'b str>, out: &mut String) {
        let mut blank = |out: &mut String| out.push_str(blanks.next().unwrap_or_default());
        blank(out);
        match self {
            Self::Scalar(token) => out.push_str(token),
            Self::Array(items) => {
                out.push('[');
                blank(out);
                for (place, item) in items.iter().enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    item.scatter(blanks, out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                blank(out);
                for (place, (name, value)) in members.iter().enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    out.push_str(blanks.next().unwrap_or_default());
                    out.push_str(name);
                    out.push_str(blanks.next().unwrap_or_default());
                    out.push(':');
                    value.scatter(blanks, out);
                }
                out.push('}');
            }
        }
        out.push_str(blanks.next().unwrap_or_default());
    }
}

/// White space of every legal kind.
pub(crate) fn blanks() -> impl Strategy<Value = Vec<&'static str>> {
    let blank = select(vec![
        "",
        "",
        "",
        " ",
        "\n",
        "\r\n",
        "\t",
        "  ",
        "\n          ",
        "\n \t \r ",
    ]);
    prop_oneof![Just(vec![""]), prop::collection::vec(blank, 1..40)]
}

/// Scalars with everything a careless reader gets wrong.
pub(crate) fn scalar() -> impl Strategy<Value = String> {
    let odd = [
        "null",
        "true",
        "false",
        "0",
        "-0",
        "1.50",
        "1E+2",
        "9007199254740993",
        "1e400",
        "123456789012345678901234567890",
        "-1.0e-7",
        r#""""#,
        r#""\u0000""#,
        r#""\ud800""#,
        r#""\ud83d\ude00""#,
        r#""a\/b""#,
        r#""\"}],{[\\""#,
        r#""\u003c\u2028""#,
        "\"\u{2028}é日\"",
        r#""{ \"a\" : [ 1 , 2 ] }""#,
        "\"\u{7f}\"",
        r#""\\""#,
        r#""  ,  :  ""#,
    ];
    let long = "[ -~]{0,60}".prop_map(|plain| quoted(&plain));
    prop_oneof![select(odd.map(str::to_owned).to_vec()), long]
}

/// A string token, for names inside values; duplicates are welcome.
pub(crate) fn name_token() -> impl Strategy<Value = String> {
    let odd = [
        r#""""#,
        r#""a""#,
        r#""\u0061""#,
        r#""\u0000""#,
        "\"é\"",
        r#""attributes""#,
        r#""a b:""#,
    ];
    select(odd.map(str::to_owned).to_vec())
}

pub(crate) fn value() -> impl Strategy<Value = Tree> {
    scalar()
        .prop_map(Tree::Scalar)
        .prop_recursive(5, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Tree::Array),
                prop::collection::vec((name_token(), inner), 0..6).prop_map(Tree::Object),
            ]
        })
}
