//! How the demo looks: chapters, remarks, commands with what they printed.

/// Lines longer than this wrap badly on a projector.
const WIDTH: usize = 100;

/// The most lines of one command's output that are worth reading: what came of it stands at the end.
const LINES: usize = 10;

/// Of a refusal the reason stands at the beginning; general advice follows.
const REASON_LINES: usize = 3;

/// What terraform reports about each resource while it works.
const PROGRESS: [&str; 4] = [
    ": Refreshing state...",
    ": Creating...",
    ": Modifying...",
    ": Destroying...",
];

/// Prints to stdout and counts the chapters.
#[derive(Debug, Default)]
pub(crate) struct Narrator {
    chapters: u32,
}

impl Narrator {
    pub(crate) fn chapter(&mut self, title: &str) {
        self.chapters += 1;
        println!("\n━━ {}. {title}", self.chapters);
    }

    pub(crate) fn say(&self, remark: &str) {
        println!("   {remark}");
    }

    /// Shows a command and the lines of its output that matter.
    pub(crate) fn command(&self, line: &str, output: &str) {
        let lines = interesting(output);
        let hidden = lines.len().saturating_sub(LINES);
        print_command(line);
        if hidden > 0 {
            println!("   │ … {hidden} lines");
        }
        print_lines(&lines[hidden..]);
    }

    /// Shows a command that was refused, and why.
    pub(crate) fn refusal(&self, line: &str, output: &str) {
        let lines = interesting(output);
        print_command(line);
        print_lines(&lines[..lines.len().min(REASON_LINES)]);
    }
}

fn print_command(line: &str) {
    println!("\n   $ {line}");
}

fn print_lines(lines: &[String]) {
    for line in lines {
        println!("   │ {line}");
    }
}

/// The lines without frames and progress, none of them empty or too long.
fn interesting(output: &str) -> Vec<String> {
    output
        .lines()
        .map(|line| line.trim_end().trim_start_matches(['╷', '│', '╵']))
        .filter(|line| !line.trim().is_empty())
        .filter(|line| !PROGRESS.iter().any(|progress| line.contains(progress)))
        .map(|line| {
            if line.chars().count() > WIDTH {
                line.chars().take(WIDTH - 1).chain(['…']).collect()
            } else {
                line.to_owned()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_progress_and_empty_lines_are_left_out_and_long_lines_cut() {
        let output = "╷\n│ Error: locked\n│\n╵\nterraform_data.a: Creating...\n  ]\n";
        assert_eq!(interesting(output), [" Error: locked", "  ]"]);
        assert_eq!(interesting(&"x".repeat(300))[0].chars().count(), WIDTH);
    }
}
