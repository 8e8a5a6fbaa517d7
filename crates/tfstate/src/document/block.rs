//! One resource block: its members as they are read, and the [`Block`] made of them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::Block;
use crate::Digest;
use crate::address::{Mode, ModulePath, is_identifier};
use crate::json::{decode_string, folds_to};

/// The members of a block that Terraform knows.
const BLOCK_FIELDS: [&str; 7] = [
    "module",
    "mode",
    "type",
    "name",
    "each",
    "provider",
    "instances",
];

/// One block while its members are read.
#[derive(Default)]
pub(super) struct Draft<'a> {
    module: Option<&'a [u8]>,
    mode: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
    provider: Option<&'a [u8]>,
    /// Byte ranges of the members before and after `instances`.
    pub(super) before: Option<(usize, usize)>,
    pub(super) after: Option<(usize, usize)>,
    pub(super) has_instances: bool,
    /// Digest of the text as it was when `instances` began.
    pub(super) digest: Option<Digest>,
    pub(super) first_row: usize,
}

impl<'a> Draft<'a> {
    /// A block whose rows begin at `first_row`.
    pub(super) fn new(first_row: usize) -> Self {
        Self {
            first_row,
            ..Self::default()
        }
    }

    pub(super) fn member(&mut self, name: &'a [u8], value: &'a [u8]) -> Option<String> {
        let field = match name {
            b"\"module\"" => &mut self.module,
            b"\"mode\"" => &mut self.mode,
            b"\"type\"" => &mut self.kind,
            b"\"name\"" => &mut self.name,
            b"\"provider\"" => &mut self.provider,
            _ => return misspelled(name, &BLOCK_FIELDS),
        };
        // Null leaves a text as it was.
        if value != b"null" {
            *field = Some(value);
        }
        None
    }

    /// The members read so far, without `instances`.
    pub(super) fn text(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let span = |(start, end): (usize, usize)| &bytes[start..end];
        match (self.before.map(span), self.after.map(span)) {
            (None, None) => Cow::Borrowed(b""),
            (Some(only), None) | (None, Some(only)) => Cow::Borrowed(only),
            (Some(before), Some(after)) => Cow::Owned([before, b",\n      ", after].concat()),
        }
    }

    /// The block, with `digest` as that of `text`.
    pub(super) fn block(
        &self,
        text: Cow<'a, [u8]>,
        digest: Digest,
        names: &mut Names<'a>,
    ) -> Result<Block<'a>, String> {
        let kind = identifier(self.kind, "type")?;
        let name = identifier(self.name, "name")?;
        let mode = match self.mode {
            Some(b"\"managed\"") => Mode::Managed,
            Some(b"\"data\"") => Mode::Data,
            _ => return Err(format!("{kind}.{name} has an unknown mode")),
        };
        // Printed, the address of such a resource would read as something else.
        if mode == Mode::Managed && (kind == "data" || kind == "module") {
            return Err(format!("{kind:?} is no resource type"));
        }
        let (module, module_path) = names.module(self.module)?;
        let provider = names.provider(self.provider)?;
        Ok(Block {
            module,
            module_path,
            mode,
            kind,
            name,
            provider,
            text,
            digest,
        })
    }
}

fn text<'a>(token: &'a [u8], what: &str) -> Result<Cow<'a, str>, String> {
    decode_string(token)
        .filter(|text| !text.contains('\0'))
        .ok_or_else(|| format!("a resource has an unusable {what}"))
}

fn identifier<'a>(token: Option<&'a [u8]>, what: &str) -> Result<Cow<'a, str>, String> {
    let text = token.map_or(Ok(Cow::Borrowed("")), |token| text(token, what))?;
    if is_identifier(&text) {
        Ok(text)
    } else {
        Err(format!("{text:?} is no resource {what}"))
    }
}

/// Module paths and providers that were read before. A state has thousands of blocks but few of
/// these, and blocks of a module stand together.
#[derive(Default)]
pub(super) struct Names<'a> {
    module: Option<KnownModule<'a>>,
    provider: Option<(&'a [u8], Arc<str>)>,
    providers: HashMap<&'a [u8], Arc<str>>,
}

/// A module path as written, printed and parsed.
struct KnownModule<'a> {
    token: Option<&'a [u8]>,
    printed: Arc<str>,
    path: Arc<ModulePath>,
}

impl<'a> Names<'a> {
    fn module(&mut self, token: Option<&'a [u8]>) -> Result<(Arc<str>, Arc<ModulePath>), String> {
        if let Some(known) = &self.module
            && known.token == token
        {
            return Ok((Arc::clone(&known.printed), Arc::clone(&known.path)));
        }
        // A NUL in a key is no obstacle: it is printed as an escape.
        let text = token.map_or(Some(Cow::Borrowed("")), decode_string);
        let text = text.ok_or("a resource has an unusable module")?;
        let path: ModulePath = text
            .parse()
            .map_err(|error| format!("{text:?} is no module address: {error}"))?;
        let (printed, path) = (Arc::from(path.to_string()), Arc::new(path));
        let known = KnownModule {
            token,
            printed,
            path,
        };
        let answer = (Arc::clone(&known.printed), Arc::clone(&known.path));
        self.module = Some(known);
        Ok(answer)
    }

    fn provider(&mut self, token: Option<&'a [u8]>) -> Result<Option<Arc<str>>, String> {
        let Some(token) = token else { return Ok(None) };
        // Neighbours mostly share their provider, so the table is rarely asked.
        if let Some((last, known)) = &self.provider
            && *last == token
        {
            return Ok(Some(Arc::clone(known)));
        }
        let provider = match self.providers.get(token) {
            Some(known) => Arc::clone(known),
            None => {
                let provider: Arc<str> = text(token, "provider")?.into();
                self.providers.insert(token, Arc::clone(&provider));
                provider
            }
        };
        self.provider = Some((token, Arc::clone(&provider)));
        Ok(Some(provider))
    }
}

/// A name Terraform would take for one of `fields` although it is spelled otherwise. Rows are
/// found by exact names, so such a document is kept whole.
pub(super) fn misspelled(name: &[u8], fields: &[&str]) -> Option<String> {
    let decoded = decode_string(name)?;
    // An escape inside a known name decodes to it exactly, yet is no exact spelling.
    let exact = |field: &str| name.len() == field.len() + 2 && decoded == field;
    fields
        .iter()
        .find(|field| folds_to(&decoded, field) && !exact(field))
        .map(|field| format!("{field} is spelled {}", String::from_utf8_lossy(name)))
}
