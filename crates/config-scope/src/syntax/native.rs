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
        let Some(key) = plain_key(text.get(offset..).unwrap_or_default()) else {
            return Err(error);
        };
        let replacement = key_of_length(key.len(), repeated);
        let range = offset + key.start..offset + key.end;
        text.to_mut().replace_range(range, &replacement);
    }
}

/// Where the word is in a key that is a bare word or a quoted one.
fn plain_key(text: &str) -> Option<std::ops::Range<usize>> {
    let (start, word) = match text.strip_prefix('"') {
        Some(quoted) => (1, quoted),
        None => (0, text),
    };
    let length =
        word.find(|rune: char| !rune.is_ascii_alphanumeric() && !"_-./ :@".contains(rune))?;
    let word = if start == 0 {
        word[..length]
            .split(|rune: char| !rune.is_ascii_alphanumeric() && rune != '_' && rune != '-')
            .next()?
    } else {
        word[length..].starts_with('"').then_some(&word[..length])?
    };
    (!word.is_empty()).then_some(start..start + word.len())
}

/// The `number`th word of this length.
fn key_of_length(length: usize, number: usize) -> String {
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
    fn an_argument_must_not_be_repeated() {
        assert!(parse_body("a = 1\na = 2\n").is_err());
        assert!(parse_body("a = { \"${x}\" = 1, \"${x}\" = 2 }\n").is_err());
    }
}
