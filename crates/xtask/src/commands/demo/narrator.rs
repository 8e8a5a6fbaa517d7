//! How the demo looks: chapters, remarks, commands with what they printed.

/// Lines longer than this wrap badly on a projector.
const WIDTH: usize = 100;

/// The most lines of one command's output that are worth reading: what came of it stands at the end.
const LINES: usize = 9;

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
        println!("\n   $ {line}");
        for line in interesting(output) {
            println!("   │ {line}");
        }
    }
}

/// Without empty lines, frames and progress, shortened in both directions.
fn interesting(output: &str) -> Vec<String> {
    let lines: Vec<&str> = output
        .lines()
        .map(|line| line.trim_end().trim_start_matches(['╷', '│', '╵']))
        .filter(|line| !line.trim().is_empty())
        .filter(|line| !PROGRESS.iter().any(|progress| line.contains(progress)))
        .collect();
    let hidden = lines.len().saturating_sub(LINES);
    let mut shown: Vec<String> = lines[hidden..]
        .iter()
        .map(|line| {
            if line.chars().count() > WIDTH {
                line.chars().take(WIDTH - 1).chain(['…']).collect()
            } else {
                (*line).to_owned()
            }
        })
        .collect();
    if hidden > 0 {
        shown.insert(0, format!("… {hidden} lines"));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_is_cut_from_the_front_and_frames_are_removed() {
        assert_eq!(
            interesting("╷\n│ Error: locked\n│\n╵\n"),
            [" Error: locked"]
        );
        let many: String = (0..20).map(|line| format!("line {line}\n")).collect();
        let shown = interesting(&many);
        assert_eq!(shown.len(), LINES + 1);
        assert_eq!(shown[0], "… 11 lines");
        assert_eq!(shown[LINES], "line 19");
        assert_eq!(interesting(&"x".repeat(300))[0].chars().count(), WIDTH);
    }
}
