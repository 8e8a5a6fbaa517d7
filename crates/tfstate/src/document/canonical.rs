//! Bringing rows into rendered form: the white space Terraform would write.
//!
//! A row that is known already is stored in that form, so only what is new is looked at.

use std::borrow::Cow;

use super::{RowKind, State};
use crate::json::{Shape, is_rendered, render};
use crate::{Digest, instance_digest, output_digest};

/// Nesting level of the first line of each piece in a document.
const PART_DEPTH: usize = 1;
const OUTPUT_DEPTH: usize = 2;
pub(crate) const BLOCK_DEPTH: usize = 2;
pub(crate) const INSTANCE_DEPTH: usize = 4;

/// A piece whose rendered form would be longer than this many times itself stays as posted, and
/// so do all once the document has grown by [`ROOM`] of its size: indentation grows with the
/// square of nesting, and a hostile document must not. Terraform's own never come near.
const GROWTH: usize = 16;
const ROOM: usize = 4;
/// What small documents may grow by in any case.
const SPARE: usize = 1 << 20;

struct Room(usize);

impl Room {
    /// The rendered form of `text`, or `None` when it has that form or must stay as it is.
    fn rendered(&mut self, text: &[u8], shape: Shape, depth: usize) -> Option<Vec<u8>> {
        if text.is_empty() || is_rendered(text, shape, depth) {
            return None;
        }
        let rendered = render(text, shape, depth, (text.len() * GROWTH).min(self.0))?;
        self.0 -= rendered.len();
        Some(rendered)
    }
}

impl State<'_> {
    /// Brings every instance, output, part and block whose digest is not `known` into rendered
    /// form and recomputes its digest; returns how many rows changed.
    ///
    /// `known` is asked with an instance's `ord`, an output's name, or nothing for a part (the
    /// three cannot be mistaken for each other), and the digest. Only white space outside
    /// strings changes. A piece that would grow out of all proportion stays as posted.
    pub fn canonicalise(&mut self, known: impl Fn(&[u8], &Digest) -> bool) -> usize {
        let mut room = Room(self.posted_len * ROOM + SPARE);
        let mut changed = 0;
        for part in &mut self.parts {
            if !known(b"", &part.digest)
                && let Some(body) = room.rendered(&part.body, Shape::Value, PART_DEPTH)
            {
                let digest = Digest::of(&body);
                self.header.rename_part(&part.digest, digest);
                part.digest = digest;
                part.body = Cow::Owned(body);
                changed += 1;
            }
        }
        // Two parts that differed in white space only are one now. There are a handful.
        let mut seen = Vec::new();
        self.parts.retain(|part| {
            let first = !seen.contains(&part.digest);
            seen.push(part.digest);
            first
        });
        for output in &mut self.outputs {
            if !known(output.name.as_bytes(), &output.digest)
                && let Some(body) = room.rendered(&output.body, Shape::Value, OUTPUT_DEPTH)
            {
                output.digest = output_digest(output.name_token, &body);
                output.body = Cow::Owned(body);
                changed += 1;
            }
        }
        changed + self.canonicalise_instances(&mut room, known)
    }

    fn canonicalise_instances(
        &mut self,
        room: &mut Room,
        known: impl Fn(&[u8], &Digest) -> bool,
    ) -> usize {
        #[derive(Clone, Copy, PartialEq)]
        enum Text {
            Unseen,
            Rendered,
            Changed,
        }
        let mut texts = vec![Text::Unseen; self.blocks.len()];
        let unknown: Vec<bool> = self
            .instances
            .iter()
            .map(|row| !known(&row.ord, &row.digest))
            .collect();
        for (row, _) in self
            .instances
            .iter()
            .zip(&unknown)
            .filter(|(_, unknown)| **unknown)
        {
            let text = &mut texts[row.block as usize];
            if *text == Text::Unseen {
                let block = &mut self.blocks[row.block as usize];
                *text = Text::Rendered;
                if let Some(rendered) = room.rendered(&block.text, Shape::Members, BLOCK_DEPTH) {
                    block.digest = Digest::of(&rendered);
                    block.text = Cow::Owned(rendered);
                    *text = Text::Changed;
                }
            }
        }
        let mut changed = 0;
        for (row, unknown) in self.instances.iter_mut().zip(unknown) {
            let mut differs = texts[row.block as usize] == Text::Changed;
            if unknown
                && row.kind != RowKind::Shell
                && let Some(body) = room.rendered(&row.body, Shape::Value, INSTANCE_DEPTH)
            {
                row.body = Cow::Owned(body);
                differs = true;
            }
            if differs {
                row.digest = instance_digest(&self.blocks[row.block as usize].digest, &row.body);
                changed += 1;
            }
        }
        changed
    }
}
