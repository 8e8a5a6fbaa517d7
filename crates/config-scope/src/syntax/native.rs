//! Parses native syntax with hcl-edit, around what it refuses and Terraform takes.

use hcl_edit::{
    expr::Expression,
    parser::{self, Error},
    structure::Body,
    template::Template,
};

use super::heredoc;

/// How many repeated keys of objects are got around in one file. Each costs a parse.
const MAX_REPEATED_KEYS: usize = 50;

/// What hcl-edit (0.10.0) says of a key that an object has already.
const REPEATED_KEY: &str = "found redefined object key";

/// Parses a file. Spans of the result index `text`, though here and there another word of the same
/// length was read: markers of heredocs ([`heredoc::disguise`]), and keys of objects that stand
/// there twice, of which Terraform takes the last.
pub(super) fn parse_body(text: &str) -> Result<Body, Error> {
    parse(text, parser::parse_body)
}

/// Parses the text of a template, as a string in JSON is one.
pub(super) fn parse_template(text: &str) -> Result<Template, Error> {
    parse(text, parser::parse_template)
}

/// Parses one expression.
pub(super) fn parse_expression(text: &str) -> Result<Expression, Error> {
    parse(text, parser::parse_expr)
}

fn parse<T>(text: &str, parser: impl Fn(&str) -> Result<T, Error>) -> Result<T, Error> {
    let mut text = heredoc::disguise(text);
    let mut repeated = 0;
    loop {
        let error = match parser(&text) {
            Ok(parsed) => return Ok(parsed),
            Err(error) => error,
        };
        repeated += 1;
        if repeated > MAX_REPEATED_KEYS || !error.message().contains(REPEATED_KEY) {
            return Err(error);
        }
        let offset = error.location().offset();
        let Some(length) = text.get(offset..).and_then(key_length) else {
            return Err(error);
        };
        // What the key points at, the equal key before it points at too.
        text.to_mut()
            .replace_range(offset..offset + length, &word_of_length(length, repeated));
    }
}

/// How many bytes the key has that `text` begins with: a word, a number, or something in quotes
/// or parentheses, up to where these end.
fn key_length(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    if first != '"' && first != '(' {
        let is_word = |rune: char| rune.is_alphanumeric() || "_-.".contains(rune);
        return text
            .find(|rune| !is_word(rune))
            .filter(|length| *length > 0);
    }
    let mut open: Vec<u8> = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at).copied() {
        let in_string = open.last() == Some(&b'"');
        let is_template = matches!(byte, b'$' | b'%') && bytes.get(at + 1) == Some(&b'{');
        match byte {
            b'\\' if in_string => at += 1,
            // A doubled sign is an escape, and no template begins there.
            b'$' | b'%' if in_string && bytes[at..].starts_with(&[byte, byte, b'{']) => at += 2,
            _ if in_string && is_template => {
                open.push(b'{');
                at += 1;
            }
            b'"' if in_string => _ = open.pop(),
            _ if in_string => {}
            b'"' | b'(' | b'{' | b'[' => open.push(byte),
            b')' | b'}' | b']' => _ = open.pop(),
            _ => {}
        }
        at += 1;
        if open.is_empty() {
            return Some(at);
        }
    }
    None
}

/// The `number`th word of this length.
fn word_of_length(length: usize, number: usize) -> String {
    let letters: Vec<char> = ('A'..='Z').chain('a'..='z').collect();
    let mut word = String::new();
    let mut rest = number;
    for _ in 0..length {
        word.push(letters[rest % letters.len()]);
        rest /= letters.len();
    }
    word
}

#[cfg(test)]
mod tests {
    use super::parse_body;

    #[test]
    fn keys_may_be_repeated_as_terraform_lets_them() {
        let text = "a = {\n  k = 1\n  \"x/y\" = 2\n  k = b.c\n  \"x/y\" = 3, k = 4\n}\n";
        let body = parse_body(text).unwrap();
        let object = body.get_attribute("a").unwrap().value.as_object().unwrap();
        assert_eq!(object.len(), 5);
    }

    #[test]
    fn computed_keys_may_be_repeated_too() {
        for key in ["\"${a[\"}\"]}-$${\"", "(a.b == \")\" ? 1 : 2)", "7"] {
            let text = format!("a = {{ {key} = 1, {key} = b.c }}\n");
            let body = parse_body(&text).unwrap();
            assert_eq!(
                body.get_attribute("a")
                    .unwrap()
                    .value
                    .as_object()
                    .unwrap()
                    .len(),
                2
            );
        }
    }

    #[test]
    fn an_argument_must_not_be_repeated() {
        assert!(parse_body("a = 1\na = 2\n").is_err());
    }
}
