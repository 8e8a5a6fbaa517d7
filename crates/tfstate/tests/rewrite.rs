//! Rows rewritten: what is named changes, all else stays the bytes it was.

use tfstate::{
    Address, Document, Key, Step, block_at, body_with_attribute, body_with_dependencies,
    body_with_key, says_the_same, value_at,
};

const DOCUMENT: &str = r#"{
  "version": 4,
  "terraform_version": "1.11.4",
  "serial": 1,
  "lineage": "l",
  "outputs": {},
  "resources": [
    {
      "mode": "managed",
      "type": "t",
      "name": "n",
      "provider": "provider[\"p\"]",
      "instances": [
        {
          "index_key": "a\u003cb",
          "status": "tainted",
          "schema_version": 0,
          "attributes": {
            "big": 12345678901234567890.10,
            "list": [
              {
                "x": "\ud800"
              },
              2
            ],
            "n": null
          },
          "sensitive_attributes": [],
          "private": "cHI=",
          "dependencies": [
            "t.a"
          ],
          "create_before_destroy": true
        }
      ]
    }
  ],
  "check_results": null
}
"#;

fn with_row<T>(look: impl FnOnce(&[u8], &[u8]) -> T) -> T {
    let Ok(Document::State(state)) = tfstate::parse(DOCUMENT.as_bytes()) else {
        panic!("the document is a state");
    };
    let row = &state.instances[0];
    look(&state.block(row).text, &row.body)
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("rows are text")
}

#[test]
fn what_is_rewritten_as_it_was_is_the_same_bytes() {
    with_row(|block, body| {
        let address: Address = "t.n".parse().unwrap();
        assert_eq!(block_at(block, &address).unwrap(), block);
        let key = Key::Str("a<b".to_owned());
        assert_eq!(body_with_key(body, Some(&key)).unwrap(), body);
        let dependencies = ["t.a".to_owned()];
        assert_eq!(body_with_dependencies(body, &dependencies).unwrap(), body);
        let path = [Step::Member("big".to_owned())];
        let same = body_with_attribute(body, &path, b"12345678901234567890.10").unwrap();
        assert_eq!(same, body);
    });
}

#[test]
fn a_row_at_another_address_renders_as_terraform_would_write_it() {
    with_row(|block, body| {
        let address: Address = "module.m[\"k\"].data.u.o".parse().unwrap();
        let moved = text(block_at(block, &address).unwrap());
        let expected = "\"module\": \"module.m[\\\"k\\\"]\",\n      \"mode\": \"data\",\n      \"type\": \"u\",\n      \"name\": \"o\",\n      \"provider\": \"provider[\\\"p\\\"]\"";
        assert_eq!(moved, expected);
        let back: Address = "t.n".parse().unwrap();
        assert_eq!(block_at(moved.as_bytes(), &back).unwrap(), block);
        let unkeyed = body_with_key(body, None).unwrap();
        assert!(!text(unkeyed.clone()).contains("index_key"));
        let key = Key::Str("a<b".to_owned());
        assert_eq!(body_with_key(&unkeyed, Some(&key)).unwrap(), body);
        let numbered = text(body_with_key(&unkeyed, Some(&Key::Int(-3))).unwrap());
        assert!(numbered.starts_with("{\n          \"index_key\": -3,\n          \"status\""));
        let alone = body_with_dependencies(body, &[]).unwrap();
        assert!(!text(alone.clone()).contains("dependencies"));
        let again = body_with_dependencies(&alone, &["t.a".to_owned()]).unwrap();
        assert_eq!(again, body);
    });
}

#[test]
fn a_value_is_found_and_replaced_where_it_stands() {
    let member = |name: &str| Step::Member(name.to_owned());
    with_row(|_, body| {
        let path = [member("list"), Step::Element(0), member("x")];
        let changed = text(body_with_attribute(body, &path, b"[1]").unwrap());
        let expected = text(body.to_vec()).replace(
            "\"x\": \"\\ud800\"",
            "\"x\": [\n                  1\n                ]",
        );
        assert_eq!(changed, expected);
        let attributes = tfstate::instance_members(body).unwrap().attributes.unwrap();
        assert_eq!(value_at(attributes, &path), Some(&b"\"\\ud800\""[..]));
        assert_eq!(value_at(attributes, &[]), Some(attributes));
        for path in [
            vec![member("none")],
            vec![member("list"), Step::Element(2)],
            vec![member("list"), member("x")],
            vec![member("n"), member("x")],
            vec![Step::Element(0)],
        ] {
            assert_eq!(value_at(attributes, &path), None, "{path:?}");
            assert_eq!(body_with_attribute(body, &path, b"1"), None, "{path:?}");
        }
    });
}

#[test]
fn values_are_compared_by_what_they_say() {
    for (a, b, same) in [
        ("1", " 1 ", true),
        ("1", "1.0", false),
        ("\"\\u0061\"", "\"a\"", true),
        ("{\"a\":1,\"b\":[ ]}", "{ \"b\" : [],\n\"a\":1}", true),
        ("{\"a\":1}", "{\"a\":1,\"b\":1}", false),
        ("{\"a\":1,\"a\":2}", "{\"a\":2}", true),
        ("[1,2]", "[2,1]", false),
        ("null", "null", true),
        ("null", "false", false),
        ("", "", false),
        ("{", "{", false),
    ] {
        assert_eq!(says_the_same(a.as_bytes(), b.as_bytes()), same, "{a} {b}");
        assert_eq!(says_the_same(b.as_bytes(), a.as_bytes()), same, "{b} {a}");
    }
}
