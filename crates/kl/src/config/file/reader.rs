//! What a `.kl.toml` says.
//!
//! The document is walked by hand rather than through serde, because every refusal names the line
//! and, for an unknown key, the nearest known one. It never holds a token, only where one is found.
//! To add a key: extend [`KEYS`] and the `match` in [`Reader::set`], and document it in the
//! settings table of `kl reference`.

use std::borrow::Cow;
use std::path::Path;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::address::{environment_id, state_name, workspace_id};
use crate::config::{CredentialSource, Layer, Origin, Sourced, StateAddress, Surroundings, git};
use crate::failure::{Failure, Result};
use crate::secret::find_token;

/// Every key, with its section.
const KEYS: &[(&str, &str)] = &[
    ("", "state_url"),
    ("", "server"),
    ("", "workspace"),
    ("", "environment"),
    ("", "state"),
    ("", "protocol"),
    ("auth", "token_env"),
    ("auth", "token_file"),
    ("auth", "token_command"),
    ("scope", "wait"),
    ("scope", "confirm"),
    ("scope", "fallback"),
    ("scope", "iac_binary"),
];

/// Names under which people try to store the token itself.
const SECRETS: &[&str] = &[
    "token",
    "password",
    "secret",
    "api_key",
    "api_token",
    "access_token",
];

/// Reads the text of the file at `path`.
///
/// # Errors
/// Usage failures that start with `FILE:LINE:`.
pub(super) fn parse(text: &str, path: &Path, surroundings: &Surroundings) -> Result<Layer> {
    let mut reader = Reader {
        text,
        path,
        surroundings,
        layer: Layer::default(),
        whole_state: None,
        part_of_state: None,
    };
    if let Some(at) = find_token(text) {
        return Err(reader.token_refused(at));
    }
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        reader.refuse(at, error.message().trim())
    })?;
    for (key, value) in in_file_order(document.get_ref()) {
        reader.top(key, value)?;
    }
    reader.finish()
}

type Key<'a> = Spanned<Cow<'a, str>>;
type Value<'a> = Spanned<DeValue<'a>>;

/// The entries of a table from top to bottom, so that the first mistake is the one reported.
fn in_file_order<'a>(table: &'a DeTable<'a>) -> Vec<(&'a Key<'a>, &'a Value<'a>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

struct Reader<'a> {
    text: &'a str,
    path: &'a Path,
    surroundings: &'a Surroundings,
    layer: Layer,
    /// Where `state_url` stands, and the last of the keys that say a part of it.
    whole_state: Option<usize>,
    part_of_state: Option<(usize, &'static str)>,
}

impl Reader<'_> {
    fn line(&self, offset: usize) -> usize {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }

    fn refuse(&self, offset: usize, problem: &str) -> Failure {
        let shown = self.surroundings.shown(self.path);
        Failure::usage(format!(
            "{}:{}: {problem}",
            shown.display(),
            self.line(offset)
        ))
    }

    fn origin(&self, offset: usize) -> Origin {
        Origin::Line(self.surroundings.shown(self.path), self.line(offset))
    }

    fn top(&mut self, key: &Key<'_>, value: &Value<'_>) -> Result<()> {
        let name = key.get_ref().as_ref();
        if !matches!(name, "auth" | "scope") {
            return self.set("", key, value);
        }
        let DeValue::Table(section) = value.get_ref() else {
            return Err(self.refuse(
                key.span().start,
                &format!("`{name}` is a section: write [{name}]"),
            ));
        };
        for (key, value) in in_file_order(section) {
            self.set(name, key, value)?;
        }
        Ok(())
    }

    fn set(&mut self, section: &str, key: &Key<'_>, value: &Value<'_>) -> Result<()> {
        let name = key.get_ref().as_ref();
        let at = key.span().start;
        if SECRETS.contains(&name) {
            return Err(self.token_refused(at));
        }
        match (section, name) {
            ("", "state_url") => {
                let address: Sourced<StateAddress> = self.sourced(at, value)?;
                self.whole_state = Some(at);
                let state = Layer::of_state(address.value, &address.origin);
                self.layer = std::mem::take(&mut self.layer).over(state);
            }
            ("", "server") => {
                self.part_of_state = Some((at, "server"));
                self.layer.server = Some(self.sourced(at, value)?);
            }
            ("", "workspace") => {
                self.part_of_state = Some((at, "workspace"));
                self.layer.workspace = Some(self.read(at, value, workspace_id)?);
            }
            ("", "environment") => {
                self.part_of_state = Some((at, "environment"));
                self.layer.environment = Some(self.read(at, value, environment_id)?);
            }
            ("", "state") => {
                self.part_of_state = Some((at, "state"));
                self.layer.state = Some(self.read(at, value, state_name)?);
            }
            ("", "protocol") => self.layer.protocol = Some(self.sourced(at, value)?),
            ("auth", "token_env") => {
                let variable = self.string(value)?.to_owned();
                self.credential(at, CredentialSource::Variable(variable))?;
            }
            ("auth", "token_file") => {
                let base = self.path.parent().unwrap_or(Path::new("."));
                let file = self.surroundings.expand(self.string(value)?, base);
                self.credential(at, CredentialSource::File(file))?;
            }
            ("auth", "token_command") => {
                let command = CredentialSource::Command {
                    words: self.strings(value)?,
                    directory: self.path.parent().unwrap_or(Path::new(".")).to_owned(),
                };
                self.credential(at, command)?;
            }
            ("scope", "wait") => self.layer.wait = Some(self.sourced(at, value)?),
            ("scope", "confirm") => self.layer.confirm = Some(self.sourced(at, value)?),
            ("scope", "fallback") => self.layer.fallback = Some(self.sourced(at, value)?),
            ("scope", "iac_binary") => self.layer.iac_binary = Some(self.sourced(at, value)?),
            _ => return Err(self.unknown(section, name, at)),
        }
        Ok(())
    }

    fn credential(&mut self, at: usize, source: CredentialSource) -> Result<()> {
        if self.layer.credential.is_some() {
            return Err(self.refuse(
                at,
                "[auth] takes one of token_env, token_file and token_command, not two",
            ));
        }
        self.layer.credential = Some(Sourced::new(source, self.origin(at)));
        Ok(())
    }

    fn sourced<T>(&self, at: usize, value: &Value<'_>) -> Result<Sourced<T>>
    where
        T: FromStr<Err: ToString>,
    {
        self.read(at, value, str::parse)
    }

    fn read<T, E: ToString>(
        &self,
        at: usize,
        value: &Value<'_>,
        parse: fn(&str) -> Result<T, E>,
    ) -> Result<Sourced<T>> {
        let parsed = parse(self.string(value)?)
            .map_err(|error| self.refuse(value.span().start, &error.to_string()))?;
        Ok(Sourced::new(parsed, self.origin(at)))
    }

    fn string<'v>(&self, value: &'v Value<'_>) -> Result<&'v str> {
        match value.get_ref() {
            DeValue::String(text) if !text.is_empty() => Ok(text.as_ref()),
            DeValue::String(_) => Err(self.refuse(value.span().start, "the value is empty")),
            // `wait = 0` is what people write for "do not wait".
            DeValue::Integer(number) if number.as_str() == "0" => Ok("0"),
            _ => Err(self.refuse(value.span().start, "expected a string in quotes")),
        }
    }

    fn strings(&self, value: &Value<'_>) -> Result<Vec<String>> {
        let DeValue::Array(items) = value.get_ref() else {
            return Err(self.refuse(
                value.span().start,
                "expected a list of words, such as [\"op\", \"read\", \"op://team/kl/token\"]",
            ));
        };
        let words = items
            .iter()
            .map(|item| self.string(item).map(str::to_owned))
            .collect::<Result<Vec<_>>>()?;
        if words.is_empty() {
            return Err(self.refuse(value.span().start, "the command is empty"));
        }
        Ok(words)
    }

    fn token_refused(&self, at: usize) -> Failure {
        let failure = self.refuse(at, "a token does not belong into this file");
        let failure = if git::is_tracked(self.path) {
            failure.hint(
                "the file is tracked by git: if the token was ever committed, run \
                 `kl token revoke --leaked` and make a new one",
            )
        } else {
            failure
        };
        failure.hint("name the variable that holds it instead: [auth] token_env = \"KL_TOKEN\"")
    }

    fn unknown(&self, section: &str, name: &str, at: usize) -> Failure {
        let full = |section: &str, name: &str| match section {
            "" => format!("`{name}`"),
            _ => format!("`{name}` in [{section}]"),
        };
        let nearest = KEYS
            .iter()
            // A key in the wrong section is nearer than any other key.
            .map(|(known_section, known)| {
                let likeness = strsim::jaro_winkler(name, known);
                let bonus = if *known_section == section { 0.01 } else { 0.0 };
                (likeness + bonus, *known_section, *known)
            })
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|(likeness, ..)| *likeness > 0.7);
        let failure = self.refuse(at, &format!("unknown key {}", full(section, name)));
        match nearest {
            Some((_, known_section, known)) => failure.hint(format!(
                "the nearest known key is {}",
                full(known_section, known)
            )),
            None => failure.hint("run `kl help config` for the list of keys"),
        }
    }

    fn finish(self) -> Result<Layer> {
        match (self.whole_state, self.part_of_state) {
            (Some(_), Some((at, part))) => Err(self.refuse(
                at,
                &format!("`state_url` already says the `{part}`; give one or the other"),
            )),
            _ => Ok(self.layer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://api.example.com/v1/states/ws_0123456789ab/env_0123456789ab/prod";

    fn read_text(text: &str) -> Result<Layer> {
        let folder = Path::new("/project");
        parse(
            text,
            &folder.join(crate::config::file::NAME),
            &Surroundings::for_test(folder, &[]),
        )
    }

    fn refusal(text: &str) -> (String, String) {
        let failure = read_text(text).unwrap_err();
        assert_eq!(failure.kind(), crate::failure::Kind::Usage);
        (failure.causes().next().unwrap(), failure.hints().join("; "))
    }

    #[test]
    fn each_value_knows_its_line() {
        let layer = read_text(&format!(
            "# ours\nstate_url = \"{URL}\"\n\n[auth]\ntoken_env = \"PROD_TOKEN\"\n[scope]\nwait = 0\n"
        ))
        .unwrap();
        assert_eq!(layer.state.unwrap().origin.to_string(), ".kl.toml:2");
        assert_eq!(layer.credential.unwrap().origin.to_string(), ".kl.toml:5");
        assert_eq!(layer.wait.unwrap().value.to_string(), "0");
    }

    #[test]
    fn an_unknown_key_is_told_the_nearest_known_one() {
        let (error, hint) = refusal("protocol = \"auto\"\nstat_url = \"x\"\n");
        assert_eq!(error, ".kl.toml:2: unknown key `stat_url`");
        assert_eq!(hint, "the nearest known key is `state_url`");
        let (error, hint) = refusal("[auth]\ntokenenv = \"X\"\n");
        assert_eq!(error, ".kl.toml:2: unknown key `tokenenv` in [auth]");
        assert_eq!(hint, "the nearest known key is `token_env` in [auth]");
        let (_, hint) = refusal("token_file = \"x\"\n");
        assert_eq!(hint, "the nearest known key is `token_file` in [auth]");
        let (error, _) = refusal("[backend]\naddress = \"x\"\n");
        assert_eq!(error, ".kl.toml:1: unknown key `backend`");
    }

    #[test]
    fn a_bad_value_names_its_line_and_what_would_do() {
        assert_eq!(
            refusal("\nprotocol = \"grpc\"\n").0,
            ".kl.toml:2: `grpc` is none of auto, http, kl"
        );
        assert_eq!(
            refusal("server = 3\n").0,
            ".kl.toml:1: expected a string in quotes"
        );
        assert_eq!(
            refusal("workspace = \"\"\n").0,
            ".kl.toml:1: the value is empty"
        );
        assert!(
            refusal("environment = \"prod\"\n")
                .0
                .starts_with(".kl.toml:1: `prod` is not the id of an environment")
        );
        assert!(
            refusal("[scope]\nwait = \"soon\"\n")
                .0
                .starts_with(".kl.toml:2: `soon` is not a duration")
        );
        assert!(
            refusal("[auth]\ntoken_command = \"op read\"\n")
                .0
                .contains("expected a list of words")
        );
        assert!(refusal("a = \n").0.starts_with(".kl.toml:1: "));
    }

    #[test]
    fn two_ways_to_say_one_thing_are_refused() {
        let (error, _) = refusal(&format!("state_url = \"{URL}\"\nstate = \"other\"\n"));
        assert_eq!(
            error,
            ".kl.toml:2: `state_url` already says the `state`; give one or the other"
        );
        let (error, _) = refusal("[auth]\ntoken_env = \"A\"\ntoken_file = \"b\"\n");
        assert!(
            error.starts_with(".kl.toml:3: [auth] takes one of"),
            "{error}"
        );
    }

    #[test]
    fn a_token_is_refused_under_any_key_and_never_repeated() {
        let token = format!("klp_{}", "Zz9".repeat(17));
        for text in [
            "token = \"x\"\n".to_owned(),
            "[auth]\npassword = \"x\"\n".to_owned(),
            format!("[auth]\ntoken_command = [\"echo\", \"{token}\"]\n"),
            format!("# {token}\n"),
        ] {
            let (error, hint) = refusal(&text);
            assert!(
                error.contains("a token does not belong into this file"),
                "{error}"
            );
            assert!(hint.contains("token_env"), "{hint}");
            assert!(!error.contains(&token) && !hint.contains(&token));
        }
    }
}
