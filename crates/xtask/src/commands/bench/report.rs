//! How figures are printed, and the few statistics behind them.

use std::fmt::Display;
use std::time::Duration;

/// What a figure must be to be called ok.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    AtMost(f64),
    AtLeast(f64),
}

impl Target {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "≤ {bound}"),
            Self::AtLeast(bound) => write!(f, "≥ {bound}"),
        }
    }
}

/// The printer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report;

impl Report {
    /// A ratio, and below it what it was made from.
    pub(super) fn ratio(self, name: &str, value: f64, target: Target, made_from: &str) {
        let verdict = verdict(target.holds(value));
        println!("{name}: {value:.3} (target {target}) {verdict}");
        println!("    {made_from}");
    }

    /// How many of all have a property that all should have.
    pub(super) fn count(self, name: &str, of: usize, all: usize, missing: &[String]) {
        let verdict = verdict(of == all);
        println!("{name}: {of} of {all} (target all) {verdict}");
        if !missing.is_empty() {
            println!("    not: {}", missing.join(", "));
        }
    }

    /// Something worth knowing that has no target.
    pub(super) fn note(self, name: &str, value: &str) {
        println!("{name}: {value} (for information)");
    }
}

fn verdict(holds: bool) -> &'static str {
    if holds { "ok" } else { "short" }
}

pub(super) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub(super) fn median(samples: &[f64]) -> f64 {
    percentile(samples, 50)
}

/// The smallest sample that is at least as large as `percent` of all; NaN of none.
pub(super) fn percentile(samples: &[f64], percent: usize) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(rank).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&samples, 99), 99.0);
        assert_eq!(median(&samples), 50.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_target_says_in_which_direction() {
        assert!(Target::AtMost(2.5).holds(2.5) && !Target::AtMost(2.5).holds(2.6));
        assert!(Target::AtLeast(0.2).holds(0.3) && !Target::AtLeast(0.2).holds(0.1));
        assert_eq!(Target::AtMost(0.6).to_string(), "≤ 0.6");
    }
}
