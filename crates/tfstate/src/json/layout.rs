//! The white space Terraform writes: two blanks per level, one member or element per line, a
//! blank after the colon, nothing inside an empty object or array.
//!
//! Only white space outside strings changes; strings, number text and key order stay as they are.
//! The input must have passed the scanner: layout follows the punctuation and trusts it.

use crate::sink::{Bounded, Comparer, Sink};

/// What a text is: one value, or the members of an object without its braces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    Value,
    Members,
}

/// A piece of JSON text between white space.
enum Token<'a> {
    Open(&'a [u8]),
    Close(&'a [u8]),
    Comma,
    Colon,
    /// A string, number or word.
    Scalar(&'a [u8]),
}

struct Tokens<'a> {
    bytes: &'a [u8],
    pos: usize,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        while matches!(self.bytes.get(self.pos), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.pos += 1;
        }
        let start = self.pos;
        let first = *self.bytes.get(start)?;
        self.pos += 1;
        match first {
            b',' => return Some(Token::Comma),
            b':' => return Some(Token::Colon),
            b'{' | b'[' => return Some(Token::Open(&self.bytes[start..self.pos])),
            b'}' | b']' => return Some(Token::Close(&self.bytes[start..self.pos])),
            b'"' => self.pos = string_end(self.bytes, self.pos),
            _ => {
                while let Some(byte) = self.bytes.get(self.pos)
                    && !matches!(
                        byte,
                        b',' | b':' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t'
                    )
                {
                    self.pos += 1;
                }
            }
        }
        Some(Token::Scalar(&self.bytes[start..self.pos]))
    }
}

/// The position after the closing quote of a string whose content starts at `pos`.
fn string_end(bytes: &[u8], mut pos: usize) -> usize {
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(pos..).unwrap_or_default()) {
        pos += found + 1;
        if bytes[pos - 1] == b'"' {
            return pos;
        }
        pos += 1;
    }
    bytes.len()
}

/// Whether `text` already is as Terraform would write it, its first line standing at `depth`.
pub(crate) fn is_rendered(text: &[u8], shape: Shape, depth: usize) -> bool {
    let mut comparer = Comparer { rest: text };
    lay_out(text, shape, depth, &mut comparer) && comparer.rest.is_empty()
}

/// The rendered form of `text`, or `None` when it would be longer than `limit` bytes: deep
/// nesting makes indentation grow with the square of the text.
pub(crate) fn render(text: &[u8], shape: Shape, depth: usize, limit: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len().min(limit));
    lay_out(
        text,
        shape,
        depth,
        &mut Bounded {
            out: &mut out,
            room: limit,
        },
    )
    .then_some(out)
}

fn lay_out(text: &[u8], shape: Shape, mut depth: usize, sink: &mut impl Sink) -> bool {
    // Members stand one level below the object whose braces are not here.
    if shape == Shape::Members {
        depth += 1;
    }
    let mut just_opened = false;
    for token in (Tokens {
        bytes: text,
        pos: 0,
    }) {
        if just_opened && !matches!(token, Token::Close(_)) && !line_break(depth, sink) {
            return false;
        }
        let goes_on = match token {
            Token::Open(bracket) => {
                depth += 1;
                sink.piece(bracket)
            }
            Token::Close(bracket) => {
                depth = depth.saturating_sub(1);
                (just_opened || line_break(depth, sink)) && sink.piece(bracket)
            }
            Token::Comma => sink.piece(b",") && line_break(depth, sink),
            Token::Colon => sink.piece(b": "),
            Token::Scalar(scalar) => sink.piece(scalar),
        };
        if !goes_on {
            return false;
        }
        just_opened = matches!(token, Token::Open(_));
    }
    true
}

fn line_break(depth: usize, sink: &mut impl Sink) -> bool {
    const BLANKS: &[u8; 64] = &[b' '; 64];
    if !sink.piece(b"\n") {
        return false;
    }
    let mut width = depth * 2;
    while width > 0 {
        let step = width.min(BLANKS.len());
        if !sink.piece(&BLANKS[..step]) {
            return false;
        }
        width -= step;
    }
    true
}
