//! Where hcl-edit and Terraform disagree about the end of a heredoc.
//!
//! Terraform ends a heredoc at the first line that, trimmed, is the marker and nothing else.
//! hcl-edit (0.10.0) also ends it at a line that goes on after the marker, runs past the end of an
//! empty one if the same marker comes again, and does not trim what is white space only in
//! Unicode. Each would turn text into configuration or the reverse.
//!
//! So the markers of such heredocs are replaced before parsing, by others of the same length
//! ([`disguise`]), and every heredoc that was parsed is held against the original text
//! ([`fault`]): if its extent is not the one that Terraform sees, the file counts as unread.

use std::{borrow::Cow, collections::BTreeSet, ops::Range};

/// `text` with the markers replaced that hcl-edit would misread; offsets stay the same.
///
/// What looks like a heredoc in a comment may be taken for one. That is harmless: [`fault`] decides
/// what is read.
pub(super) fn disguise(text: &str) -> Cow<'_, str> {
    if !text.contains("<<") {
        return Cow::Borrowed(text);
    }
    let lines = lines_of(text);
    let mut changes: Vec<(usize, String)> = Vec::new();
    let mut taken = BTreeSet::new();
    let mut at = 0;
    while let Some((offset, line)) = lines.get(at) {
        at += 1;
        let is_comment = ["#", "//"]
            .iter()
            .any(|sign| line.trim_start().starts_with(sign));
        let Some((place, marker)) = opening(line).filter(|_| !is_comment) else {
            continue;
        };
        let ends = |(_, line): &(usize, &str)| line.trim() == marker;
        let Some(length) = lines[at..].iter().position(ends) else {
            continue;
        };
        let body = &lines[at..at + length];
        let (end_offset, end_line) = lines[at + length];
        at += length + 1;
        let is_misread = |(_, line): &(usize, &str)| line.trim_start().starts_with(marker);
        if !body.is_empty() && !body.iter().any(is_misread) {
            continue;
        }
        if let Some(other) = unused_marker(marker.len(), &lines, &mut taken) {
            let indent = end_line.len() - end_line.trim_start().len();
            changes.push((offset + place, other.clone()));
            changes.push((end_offset + indent, other));
        }
    }
    let mut text = Cow::Borrowed(text);
    for (offset, marker) in changes {
        text.to_mut()
            .replace_range(offset..offset + marker.len(), &marker);
    }
    text
}

/// What is wrong with the heredoc at `span` of the original text, if anything, and where.
pub(super) fn fault(source: &str, span: Option<Range<usize>>) -> Option<(usize, &'static str)> {
    let Some(span) = span else {
        return Some((0, "a heredoc without a known place"));
    };
    let Some((text, after)) = source.get(span.clone()).zip(source.get(span.end..)) else {
        return Some((span.start, "a heredoc without a known place"));
    };
    if !after
        .split('\n')
        .next()
        .unwrap_or_default()
        .trim()
        .is_empty()
    {
        return Some((span.end, "text after the end marker of a heredoc"));
    }
    let lines = lines_of(text);
    let (Some((_, first)), Some((last, inside))) = (lines.first(), lines[1..].split_last()) else {
        return Some((span.start, "a heredoc on one line"));
    };
    let Some((_, marker)) = opening(first) else {
        return Some((span.start, "a heredoc without a marker"));
    };
    if last.1.trim() != marker {
        return Some((span.start + last.0, "a heredoc that ends at another marker"));
    }
    let early = inside.iter().find(|(_, line)| line.trim() == marker);
    early.map(|(offset, _)| {
        (
            span.start + offset,
            "a line inside a heredoc that Terraform takes for its end",
        )
    })
}

fn lines_of(text: &str) -> Vec<(usize, &str)> {
    let mut offset = 0;
    let line = |line: &'_ str| {
        let start = offset;
        offset += line.len();
        start
    };
    let starts: Vec<usize> = text.split_inclusive('\n').map(line).collect();
    starts.into_iter().zip(text.split_inclusive('\n')).collect()
}

/// The marker of a heredoc that begins at the end of `line`, and where in the line it stands.
fn opening(line: &str) -> Option<(usize, &str)> {
    let line = line.strip_suffix('\n')?;
    let line = line.strip_suffix('\r').unwrap_or(line);
    let place = line.rfind("<<")? + 2;
    let place = place + usize::from(line[place..].starts_with('-'));
    let marker = &line[place..];
    let is_marker = marker
        .chars()
        .next()
        .is_some_and(|first| !first.is_ascii_digit())
        && marker
            .chars()
            .all(|rune| rune.is_alphanumeric() || "_-".contains(rune));
    is_marker.then_some((place, marker))
}

/// A marker of `length` bytes that no line begins with, and that was not handed out before.
fn unused_marker(
    length: usize,
    lines: &[(usize, &str)],
    taken: &mut BTreeSet<String>,
) -> Option<String> {
    let letters = || ('A'..='Z').chain('a'..='z');
    let singles = letters().map(|letter| letter.to_string().repeat(length));
    // Fifty-two are enough for most files; of longer markers there are more.
    let pairs = letters().flat_map(|first| letters().map(move |second| (first, second)));
    let pairs = pairs
        .filter(|_| length > 1)
        .map(|(first, second)| format!("{first}{}", second.to_string().repeat(length - 1)));
    let found = singles.chain(pairs).find(|marker| {
        !taken.contains(marker)
            && !lines
                .iter()
                .any(|(_, line)| line.trim_start().starts_with(marker.as_str()))
    })?;
    taken.insert(found.clone());
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::disguise;

    #[test]
    fn only_a_marker_that_a_line_begins_with_is_replaced() {
        let plain = "a = <<EOT\n x EOT\nEOT\n";
        assert_eq!(disguise(plain), plain);
        let odd = "a = <<-EOT\n EOT in front\n  AAA\n  EOT\nb = \"EOT\"\n";
        assert_eq!(
            disguise(odd),
            "a = <<-BBB\n EOT in front\n  AAA\n  BBB\nb = \"EOT\"\n"
        );
    }

    #[test]
    fn empty_heredocs_get_markers_of_their_own() {
        let empty = "a = <<EOT\n  EOT\nb = <<EOT\nEOT\nc = <<EOT\nx\nEOT\n";
        let expected = "a = <<AAA\n  AAA\nb = <<BBB\nBBB\nc = <<EOT\nx\nEOT\n";
        assert_eq!(disguise(empty), expected);
    }

    #[test]
    fn a_heredoc_in_the_text_of_a_heredoc_is_text() {
        let nested = "a = <<SH\ncat <<EOF\nSH -c\nEOF\nSH\n";
        assert_eq!(disguise(nested), "a = <<AA\ncat <<EOF\nSH -c\nEOF\nAA\n");
    }
}
