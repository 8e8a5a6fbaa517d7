//! Tables without lines: columns two blanks apart, wrapped to the terminal when there is one.

use comfy_table::{ContentArrangement, Row, Table as Grid, presets};

use super::plain;

/// A table under construction. Cells are made harmless as they come in.
pub(crate) struct Table(Grid);

impl Table {
    /// A table with a heading line.
    pub(crate) fn new(headings: &[&str]) -> Self {
        let mut table = Self::without_headings();
        table.0.set_header(headings.to_vec());
        table
    }

    /// Pairs of a name and a value.
    pub(crate) fn without_headings() -> Self {
        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING);
        match width() {
            Some(width) => {
                grid.set_content_arrangement(ContentArrangement::Dynamic);
                grid.set_width(width);
            }
            // For a program at the other end of a pipe a row is a line, however long.
            None => {
                grid.set_content_arrangement(ContentArrangement::Disabled);
            }
        }
        Self(grid)
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.0.add_row(Row::from(
            cells.iter().map(|cell| plain(cell)).collect::<Vec<_>>(),
        ));
    }

    pub(crate) fn pair(&mut self, name: &str, value: impl Into<String>) {
        self.row([name.to_owned(), value.into()]);
    }

    /// The finished text, with a final newline; empty for a table without rows.
    pub(crate) fn finish(mut self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        for column in self.0.column_iter_mut() {
            column.set_padding((0, 2));
        }
        let mut text = String::new();
        for line in self.0.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// The width to wrap at: the terminal's, and only when stdout is one.
fn width() -> Option<u16> {
    use std::io::IsTerminal;

    if !std::io::stdout().is_terminal() {
        return None;
    }
    terminal_size::terminal_size().map(|(width, _)| width.0)
}
