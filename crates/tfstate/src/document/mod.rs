//! A state document, split. The reading is in `read`, its resources in `resources`, hashing in
//! `hashing`, bringing rows into rendered form in `canonical`.
//!
//! "Prove it or keep it": whoever stores a [`State`] asks [`State::reproduces`] and keeps the
//! posted bytes beside the rows when the answer is no.

mod block;
mod canonical;
mod debug;
mod fields;
mod hashing;
mod read;
mod resources;

use std::borrow::Cow;
use std::sync::Arc;

pub(crate) use canonical::{BLOCK_DEPTH, INSTANCE_DEPTH};
pub use read::parse;

use crate::address::{Address, Key, Mode, ModulePath};
use crate::header::Header;
use crate::json::decode_string;
use crate::ord::{OrdKey, Place};
use crate::render::Renderer;
use crate::sink::{Comparer, Sink};
use crate::{Digest, RowsDigest, instance_members, string_array};

/// Most rows (instances, shells and outputs) one document may hold: ten times the size this
/// service is built for. A row costs some 200 bytes of memory however short it is written, so
/// without a limit a document of empty objects would cost many times its size.
pub const MAX_ROWS: usize = 1_000_000;

/// What a posted JSON object turned out to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Document<'a> {
    /// A version 4 state whose resources are rows.
    State(State<'a>),
    /// Anything else. It is kept as it is, and only the Terraform lane serves it.
    Opaque(Opaque),
}

/// A document that is not split. What could be read at its top level is told; a text with NUL or
/// longer than 1 KiB counts as unreadable, as does a serial that is no number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opaque {
    pub reason: OpaqueReason,
    pub version: Option<u64>,
    pub serial: Option<u64>,
    pub lineage: Option<String>,
    pub terraform_version: Option<String>,
    /// As [`State::ambiguous`].
    pub ambiguous: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpaqueReason {
    /// Encrypted by the client (OpenTofu).
    Encrypted,
    /// Versions 1 to 3, written by Terraform before 0.12.
    OlderVersion(u64),
    NewerVersion(u64),
    /// Terraform may read it, but not as rows; the text says why.
    NotReadable(String),
}

/// A version 4 state, split into header and rows that borrow from the posted bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct State<'a> {
    pub serial: u64,
    pub lineage: String,
    pub terraform_version: String,
    /// A top-level field that occurs more than once with different values. The values here are
    /// as Terraform reads them: the last one wins, and letter case does not matter.
    pub ambiguous: Option<String>,
    pub header: Header,
    /// Large top-level members, each once.
    pub parts: Vec<Part<'a>>,
    /// Sorted bytewise by name; no name twice.
    pub outputs: Vec<Output<'a>>,
    pub blocks: Vec<Block<'a>>,
    /// Sorted by `ord`; no `ord` twice.
    pub instances: Vec<Instance<'a>>,
    /// Length of the posted document, in bytes.
    pub(crate) posted_len: usize,
}

/// A large top-level member: `check_results`, or an unknown one.
#[derive(Clone, PartialEq, Eq)]
pub struct Part<'a> {
    /// SHA-256 of the body.
    pub digest: Digest,
    pub body: Cow<'a, [u8]>,
}

/// A root output.
#[derive(Clone, PartialEq, Eq)]
pub struct Output<'a> {
    pub name: String,
    /// The name as raw JSON string.
    pub name_token: &'a [u8],
    pub body: Cow<'a, [u8]>,
    /// [`crate::output_digest`] of token and body.
    pub digest: Digest,
}

/// What the instances of one element of `resources` share.
#[derive(Clone, PartialEq, Eq)]
pub struct Block<'a> {
    /// The module path, printed; empty for the root module. Blocks of a module share it.
    pub module: Arc<str>,
    pub module_path: Arc<ModulePath>,
    pub mode: Mode,
    /// The resource type.
    pub kind: Cow<'a, str>,
    pub name: Cow<'a, str>,
    /// Absent in documents of OpenTofu that name the provider per instance.
    pub provider: Option<Arc<str>>,
    /// All members but `instances`, without the braces.
    pub text: Cow<'a, [u8]>,
    /// SHA-256 of the text.
    pub digest: Digest,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RowKind {
    Current,
    Deposed,
    /// A block whose `instances` is empty.
    Shell,
}

/// A row: an object of a resource instance, or the shell of a resource without any.
#[derive(Clone, PartialEq, Eq)]
pub struct Instance<'a> {
    /// The place in document order; [`Place::decode`] reads it.
    pub ord: Box<[u8]>,
    pub kind: RowKind,
    /// Index into [`State::blocks`].
    pub block: u32,
    /// The key as raw JSON token; `None` when there is none or it is null.
    pub index_key: Option<&'a [u8]>,
    pub deposed: Option<Cow<'a, str>>,
    /// The instance object, braces included; empty for a shell.
    pub body: Cow<'a, [u8]>,
    /// [`crate::instance_digest`] of block text and body.
    pub digest: Digest,
}

impl State<'_> {
    /// The address of a row; for a shell that of its resource.
    pub fn address(&self, row: &Instance<'_>) -> Address {
        self.block(row).address(row.index_key.and_then(read_key))
    }

    /// The configuration addresses a row says it depends on, as written. Entries with NUL, which
    /// Terraform refuses, are left out.
    pub fn dependencies(&self, row: &Instance<'_>) -> Vec<String> {
        let members = instance_members(&row.body);
        let list = members
            .and_then(|members| members.dependencies)
            .unwrap_or_default();
        let mut addresses = string_array(list);
        addresses.retain(|address| !address.contains('\0'));
        addresses
    }

    /// The block a row stands in.
    ///
    /// # Panics
    /// When the row is not of this state.
    pub fn block(&self, row: &Instance<'_>) -> &Block<'_> {
        &self.blocks[row.block as usize]
    }

    /// Whether rendering header and rows gives exactly `posted`. Spans that still lie in place in
    /// `posted` are not compared, and nothing is allocated for the document.
    pub fn reproduces(&self, posted: &[u8]) -> bool {
        let mut comparer = Comparer { rest: posted };
        self.write(&mut comparer) && comparer.rest.is_empty()
    }

    /// The sum over instances, outputs and parts.
    pub fn rows_digest(&self) -> RowsDigest {
        let instances = self.instances.iter().map(|row| row.digest);
        let outputs = self.outputs.iter().map(|row| row.digest);
        instances
            .chain(outputs)
            .chain(self.parts.iter().map(|part| part.digest))
            .collect()
    }

    /// The document Terraform would write for header and rows.
    pub fn render(&self) -> Vec<u8> {
        let mut document = Vec::with_capacity(self.posted_len + 64);
        self.write(&mut document);
        document
    }

    fn write(&self, out: &mut impl Sink) -> bool {
        let outputs = self.outputs.iter().map(|row| (row.name_token, &row.body));
        let part = |digest: &Digest| {
            self.parts
                .iter()
                .find(|part| part.digest == *digest)
                .map(|part| &*part.body)
        };
        // A header split from a document names only parts of that document.
        let Ok(mut renderer) = Renderer::new(&self.header, outputs, part) else {
            return false;
        };
        renderer.write_start(out)
            && self
                .instances
                .iter()
                .all(|row| renderer.write_instance(&self.block(row).text, row.kind, &row.body, out))
            && renderer.write_finish(out)
    }
}

impl Block<'_> {
    /// The address of the instance of this block at `key`.
    pub fn address(&self, key: Option<Key>) -> Address {
        Address {
            module: self.module_path.0.clone(),
            mode: self.mode,
            kind: self.kind.clone().into_owned(),
            name: self.name.clone().into_owned(),
            key,
        }
    }
}

impl Instance<'_> {
    /// The decoded place of this row.
    pub fn place(&self) -> Option<Place> {
        Place::decode(&self.ord).ok()
    }

    /// The decoded key of this row.
    pub fn key(&self) -> Option<Key> {
        match self.place()?.key {
            OrdKey::Shell => None,
            OrdKey::Instance { key, .. } => key,
        }
    }
}

/// An instance key as Terraform reads its JSON token: text as it is, a number cut to a whole one
/// after a detour through a double. `None` for what Terraform refuses or reads differently on
/// different machines.
pub(crate) fn read_key(token: &[u8]) -> Option<Key> {
    /// Beyond 2^53 doubles skip whole numbers.
    const EXACT: u64 = 1 << 53;
    match token.first()? {
        b'"' => decode_string(token).map(|text| Key::Str(text.into_owned())),
        b'-' | b'0'..=b'9' => {
            let text = std::str::from_utf8(token).ok()?;
            match text.parse::<i64>() {
                Ok(number) if number.unsigned_abs() <= EXACT => Some(Key::Int(number)),
                _ => {
                    let number = text.parse::<f64>().ok()?.trunc();
                    // 2^63 itself does not fit.
                    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0)
                        .contains(&number);
                    #[expect(clippy::cast_possible_truncation, reason = "checked just above")]
                    fits.then_some(Key::Int(number as i64))
                }
            }
        }
        _ => None,
    }
}
