//! What Terraform says, less what is not true of a run.
//!
//! Every run targets something, so Terraform warns of `-target` each time and says that changes may
//! be missing; and it names the file it saved the plan to, which is gone a moment later. kl says in
//! their place what the scope was.

/// Warnings about targets, by their first line.
const UNTRUE: [&str; 2] = [
    "Resource targeting is in effect",
    "Applied changes may be incomplete",
];

/// Where an unframed warning ends: at whatever else Terraform says next.
const AFTERWARDS: [&str; 6] = [
    "Apply complete!",
    "Destroy complete!",
    "Outputs:",
    "Error:",
    "Warning:",
    "Saved the plan to:",
];

/// Goes through Terraform's lines one by one.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// The upper edge of a frame, held back until it is known what is in it.
    edge: Option<String>,
    skipping: bool,
}

impl Said {
    /// Hands on the line unless it belongs to something untrue.
    pub(super) fn take(&mut self, line: &str, mut keep: impl FnMut(&str)) {
        if self.skipping {
            self.skipping = !ends_frame(line) && !AFTERWARDS.iter().any(|word| line.contains(word));
            if self.skipping || ends_frame(line) {
                return;
            }
        }
        if UNTRUE.iter().any(|words| line.contains(words)) {
            self.edge = None;
            self.skipping = true;
            return;
        }
        if let Some(edge) = self.edge.take() {
            keep(&edge);
        }
        if line.contains('╷') {
            self.edge = Some(line.to_owned());
            return;
        }
        if !line.contains("Saved the plan to:") && !line.contains("────────") {
            keep(line);
        }
    }

    /// The part of a plan's output that tells the plan.
    pub(super) fn of_plan(stdout: &str) -> String {
        let mut said = Self::default();
        let mut text = String::new();
        for line in stdout.lines().filter(|line| !is_progress(line)) {
            said.take(line, |line| {
                text.push_str(line);
                text.push('\n');
            });
        }
        format!("{}\n", text.trim_matches('\n'))
    }
}

fn ends_frame(line: &str) -> bool {
    line.contains('╵')
}

/// Lines that tell how far a plan has come.
pub(super) fn is_progress(line: &str) -> bool {
    [
        ": Refreshing state...",
        ": Reading...",
        ": Still reading...",
        ": Read complete after",
        ": Preparing import...",
        ": Refreshing...",
        "Acquiring state lock.",
        "Releasing state lock.",
    ]
    .iter()
    .any(|words| line.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_shown_without_progress_and_without_what_is_not_true_here() {
        let printed = "terraform_data.a: Refreshing state... [id=1]\n\nTerraform will perform the following actions:\n\n  # x\n\nPlan: 1 to add, 0 to change, 0 to destroy.\n\nWarning: Resource targeting is in effect\n\nYou are creating a plan with\nthe -target option.\n\nWarning: Another\n\n─────────────────\n\nSaved the plan to: /tmp/x\n";
        assert_eq!(
            Said::of_plan(printed),
            "Terraform will perform the following actions:\n\n  # x\n\nPlan: 1 to add, 0 to change, 0 to destroy.\n\nWarning: Another\n"
        );
    }

    #[test]
    fn a_framed_warning_goes_with_its_frame_and_others_stay() {
        let printed = "╷\n│ Warning: Applied changes may be incomplete\n│ \n│ The plan\n╵\n╷\n│ Warning: Mind\n╵\nApply complete!\n";
        assert_eq!(
            Said::of_plan(printed),
            "╷\n│ Warning: Mind\n╵\nApply complete!\n"
        );
    }
}
