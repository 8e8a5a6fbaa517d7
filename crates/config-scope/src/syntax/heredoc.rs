//! Where hcl-edit and Terraform may disagree about the end of a heredoc.
//!
//! Terraform ends a heredoc at the first line that, trimmed, is the marker and nothing else.
//! hcl-edit (0.10.0) also ends it at a line that goes on after the marker, and does not trim what
//! is white space only in Unicode. Either would turn text into configuration or the reverse, so
//! such a heredoc is reported and its file counts as unread.

use std::ops::Range;

use hcl_edit::template::HeredocTemplate;

/// What is wrong with a heredoc at `span` of `source`, if anything, and at which offset.
pub(super) fn fault(
    source: &str,
    span: Option<Range<usize>>,
    heredoc: &HeredocTemplate,
) -> Option<(usize, &'static str)> {
    let Some(text) = span.as_ref().and_then(|span| source.get(span.clone())) else {
        return Some((0, "a heredoc without a known place"));
    };
    let span = span?;
    let marker = heredoc.delimiter.as_str();
    let rest = source.get(span.end..)?;
    if !rest.split('\n').next()?.trim().is_empty() {
        return Some((span.end, "text after the end marker of a heredoc"));
    }
    let mut offset = span.start;
    for line in text.split_inclusive('\n') {
        let is_last = offset + line.len() >= span.end;
        if !is_last && line.trim() == marker {
            return Some((offset, "a line inside a heredoc that Terraform takes for its end"));
        }
        offset += line.len();
    }
    None
}
