//! Reading `resources`: blocks, and a row for each of their instances.

use std::borrow::Cow;

use super::block::{Draft, Names, misspelled};
use super::hashing::{Hasher, Job};
use super::{Block, Instance, MAX_ROWS, RowKind, read_key};
use crate::json::{ScanError, Scanner, decode_string};
use crate::refusal::Refusal;
use crate::{Digest, instance_digest, ord};

/// The members of an instance that Terraform or OpenTofu knows.
const INSTANCE_FIELDS: [&str; 15] = [
    "index_key",
    "status",
    "deposed",
    "provider",
    "schema_version",
    "attributes",
    "attributes_flat",
    "sensitive_attributes",
    "identity_schema_version",
    "identity",
    "private",
    "dependencies",
    "depends_on",
    "create_before_destroy",
    "skip_destroy",
];

/// Rows in the order they were read, their digests still with the hasher.
#[derive(Default)]
pub(super) struct Resources<'a> {
    blocks: Vec<Block<'a>>,
    rows: Vec<Instance<'a>>,
    /// Digests that replace the hasher's: the block's text was not complete when it got the row.
    late: Vec<(usize, Digest)>,
    names: Names<'a>,
    /// The place being encoded; kept for its memory.
    ord: Vec<u8>,
    too_many: bool,
}

impl<'a> Resources<'a> {
    /// Rows read; one more than [`MAX_ROWS`] when there were too many.
    pub(super) fn len(&self) -> usize {
        if self.too_many {
            MAX_ROWS + 1
        } else {
            self.rows.len()
        }
    }

    /// Reads the array. Returns what keeps it from being rows, if anything does; the rest is then
    /// only validated.
    pub(super) fn read(
        &mut self,
        scanner: &mut Scanner<'a>,
        hasher: &mut Hasher<'a>,
    ) -> Result<Option<String>, ScanError> {
        let mut problem = None;
        let mut more = scanner.open(b'[')?;
        while more {
            if problem.is_some() || self.too_many {
                scanner.value()?;
            } else if scanner.peek() == Some(b'{') {
                problem = self.block(scanner, hasher)?;
            } else {
                scanner.value()?;
                problem = Some("an element of resources is no object".to_owned());
            }
            more = scanner.another(b'[')?;
        }
        Ok(problem)
    }

    fn block(
        &mut self,
        scanner: &mut Scanner<'a>,
        hasher: &mut Hasher<'a>,
    ) -> Result<Option<String>, ScanError> {
        let mut draft = Draft::new(self.rows.len());
        let mut problem = None;
        let mut more = scanner.open(b'{')?;
        while more {
            scanner.peek();
            let start = scanner.pos();
            let name = scanner.name()?;
            if name == b"\"instances\"" {
                if draft.has_instances {
                    problem = Some("a resource has instances twice".to_owned());
                }
                draft.has_instances = true;
                let digest = Digest::of(&draft.text(scanner.bytes()));
                draft.digest = Some(digest);
                let found = self.instances(scanner, hasher, digest)?;
                problem = problem.or(found);
            } else {
                let value = scanner.value()?;
                let range = if draft.has_instances {
                    &mut draft.after
                } else {
                    &mut draft.before
                };
                *range = Some((range.map_or(start, |(first, _)| first), scanner.pos()));
                problem = problem.or(draft.member(name, value));
            }
            more = scanner.another(b'{')?;
        }
        if problem.is_some() {
            return Ok(problem);
        }
        Ok(self.finish_block(draft, scanner.bytes(), hasher).err())
    }

    fn instances(
        &mut self,
        scanner: &mut Scanner<'a>,
        hasher: &mut Hasher<'a>,
        block: Digest,
    ) -> Result<Option<String>, ScanError> {
        if scanner.peek() != Some(b'[') {
            let value = scanner.value()?;
            return Ok((value != b"null").then(|| "instances is no array".to_owned()));
        }
        let mut problem = None;
        let mut more = scanner.open(b'[')?;
        while more {
            if scanner.peek() != Some(b'{') {
                scanner.value()?;
                problem = Some("an instance is no object".to_owned());
            } else if self.rows.len() >= MAX_ROWS {
                self.too_many = true;
                scanner.value()?;
            } else {
                let (row, found) = self.instance(scanner)?;
                problem = problem.or(found);
                if let Cow::Borrowed(body) = row.body {
                    hasher.push(Job { block, body });
                }
                self.rows.push(row);
            }
            more = scanner.another(b'[')?;
        }
        Ok(problem)
    }

    fn instance(
        &self,
        scanner: &mut Scanner<'a>,
    ) -> Result<(Instance<'a>, Option<String>), ScanError> {
        let (mut index_key, mut deposed) = (None, None);
        let mut problem = None;
        let start = scanner.pos();
        let mut more = scanner.open(b'{')?;
        while more {
            let name = scanner.name()?;
            let value = scanner.value()?;
            more = scanner.another(b'{')?;
            match name {
                b"\"index_key\"" => index_key = (value != b"null").then_some(value),
                b"\"deposed\"" if value != b"null" => deposed = Some(value),
                b"\"schema_version\""
                | b"\"attributes\""
                | b"\"sensitive_attributes\""
                | b"\"identity_schema_version\""
                | b"\"identity\""
                | b"\"private\""
                | b"\"dependencies\""
                | b"\"create_before_destroy\""
                | b"\"status\"" => {}
                _ if problem.is_none() => problem = misspelled(name, &INSTANCE_FIELDS),
                _ => {}
            }
        }
        let body = &scanner.bytes()[start..scanner.pos()];
        let deposed = match deposed.map(decode_string) {
            None => None,
            Some(Some(text)) if text.is_empty() => None,
            // Terraform insists on eight bytes.
            Some(Some(text)) if text.len() == 8 && !text.contains('\0') => Some(text),
            Some(_) => {
                problem = Some("a deposed key is not eight characters long".to_owned());
                None
            }
        };
        let kind = if deposed.is_some() {
            RowKind::Deposed
        } else {
            RowKind::Current
        };
        let row = Instance {
            ord: Box::default(),
            kind,
            // The number of blocks is bounded by that of rows.
            block: u32::try_from(self.blocks.len()).unwrap_or(u32::MAX),
            index_key,
            deposed,
            body: Cow::Borrowed(body),
            digest: Digest([0; 32]),
        };
        Ok((row, problem))
    }

    /// Makes the block and gives its rows their place. `Err` says why it cannot be rows.
    fn finish_block(
        &mut self,
        draft: Draft<'a>,
        bytes: &'a [u8],
        hasher: &mut Hasher<'a>,
    ) -> Result<(), String> {
        let text = draft.text(bytes);
        let digest = draft.digest.filter(|_| draft.after.is_none());
        let digest = digest.unwrap_or_else(|| Digest::of(&text));
        let block = draft.block(text, digest, &mut self.names)?;
        if self.rows.len() == draft.first_row {
            if self.rows.len() >= MAX_ROWS {
                self.too_many = true;
                return Ok(());
            }
            hasher.push(Job {
                block: block.digest,
                body: b"",
            });
            self.rows.push(Instance {
                ord: Box::default(),
                kind: RowKind::Shell,
                block: u32::try_from(self.blocks.len()).unwrap_or(u32::MAX),
                index_key: None,
                deposed: None,
                body: Cow::Borrowed(b""),
                digest: Digest([0; 32]),
            });
        }
        let ord = &mut self.ord;
        ord.clear();
        ord::push_block(ord, &block.module, block.mode, &block.kind, &block.name);
        let prefix = ord.len();
        for (place, row) in self.rows.iter_mut().enumerate().skip(draft.first_row) {
            ord.truncate(prefix);
            if row.kind == RowKind::Shell {
                ord::push_shell(ord);
            } else {
                if draft.after.is_some() {
                    let digest = instance_digest(&block.digest, &row.body);
                    self.late.push((place, digest));
                }
                let key = row.index_key.map(|token| read_key(token).ok_or(token));
                let key = key.transpose().map_err(|token| {
                    format!("the key {} is unusable", String::from_utf8_lossy(token))
                })?;
                ord::push_instance(ord, key.as_ref(), row.deposed.as_deref());
            }
            row.ord = Box::from(&**ord);
        }
        self.blocks.push(block);
        Ok(())
    }

    /// The blocks and the rows, sorted and with their digests.
    pub(super) fn into_rows(
        mut self,
        digests: &[Digest],
    ) -> Result<(Vec<Block<'a>>, Vec<Instance<'a>>), Refusal> {
        for (row, digest) in self.rows.iter_mut().zip(digests) {
            row.digest = *digest;
        }
        for (place, digest) in self.late {
            self.rows[place].digest = digest;
        }
        let mut rows = self.rows;
        if !rows.is_sorted_by(|a, b| a.ord < b.ord) {
            rows.sort_by(|a, b| a.ord.cmp(&b.ord));
            drop_needless_shells(&mut rows);
            if let Some(pair) = rows.array_windows().find(|[a, b]| a.ord == b.ord) {
                return Err(Refusal::DuplicateAddress {
                    address: shown(&self.blocks, &pair[0]),
                });
            }
        }
        Ok((self.blocks, rows))
    }
}

/// Terraform merges blocks of one resource, so a shell beside other rows of it says nothing.
fn drop_needless_shells(rows: &mut Vec<Instance<'_>>) {
    let mut next: Option<Box<[u8]>> = None;
    let mut keep = vec![true; rows.len()];
    for (row, keep) in rows.iter().zip(&mut keep).rev() {
        if row.kind == RowKind::Shell {
            // A shell's place is that of its block and one byte.
            let prefix = &row.ord[..row.ord.len() - 1];
            *keep = !next.as_ref().is_some_and(|next| next.starts_with(prefix));
        }
        next = Some(row.ord.clone());
    }
    let mut keep = keep.into_iter();
    rows.retain(|_| keep.next().unwrap_or(true));
}

fn shown(blocks: &[Block<'_>], row: &Instance<'_>) -> String {
    let address = blocks[row.block as usize].address(row.index_key.and_then(read_key));
    match &row.deposed {
        Some(deposed) => format!("{address} (deposed object {deposed})"),
        None => address.to_string(),
    }
}
