//! Whether a scope is proven: all rules, in one place.
//!
//! The closure reports what it came across as [`Facts`]; this module says what each means. `safe` is
//! a proof that a plan on the slice is the plan on the whole state restricted to the write set, so
//! anything that could break the proof is a reason for `unsafe`, however unlikely it is.
//!
//! The rule for adding here: a new [`Finding`] with its confidence, and the sentence a person reads.

use std::fmt;

/// How far a scope can be trusted. The greater one decides.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Confidence {
    /// Everything that the write set needs is in the scope.
    #[default]
    Safe,
    /// As safe, but more is written or claimed than was asked for.
    Widened,
    /// Something that is needed may be missing.
    Unsafe,
}

/// What the closure came across. Addresses are sorted and without repetition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) nothing_targeted: bool,
    pub(crate) configuration_unknown: bool,
    pub(crate) doubts: Vec<String>,
    pub(crate) unknown: Vec<String>,
    pub(crate) unreadable: Vec<String>,
    pub(crate) unmovable: Vec<String>,
    pub(crate) dependents: Vec<String>,
    pub(crate) moved: Vec<String>,
    pub(crate) reshaped: Vec<String>,
    pub(crate) created: Vec<String>,
    pub(crate) coarsened: Vec<String>,
    pub(crate) whole_calls: Vec<String>,
    pub(crate) outputs_beyond: Vec<String>,
}

/// Something about a scope that its user should know.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Finding {
    /// Without a target Terraform creates all that the slice does not show.
    NothingTargeted,
    /// The state alone does not say what the configuration depends on by now.
    ConfigurationUnknown,
    /// The client did not understand a part of the configuration; it may hold any dependency.
    Doubt(String),
    /// Named or depended on, but neither in the state nor in the configuration.
    Unknown(String),
    /// A recorded dependency or block that is no address, so what it means may be missing.
    Unreadable(String),
    /// Part of a pending move, or of a change of keys, that a run which destroys has to do with.
    /// Terraform insists on targeting it, and targeting it would destroy it.
    Unmovable(String),
    /// Destroyed along with a target, because it depends on it.
    Dependent(String),
    /// One end of a pending move whose other end is part of the scope.
    Moved(String),
    /// A block or call whose instances have other keys than its `count` or `for_each` gives them:
    /// planning anything that depends on it changes it, too.
    Reshaped(String),
    /// Needed and not deployed yet, so that the run creates it.
    Created(String),
    /// Claimed in place of many single addresses, or of one too long to be stored.
    Coarsened(String),
    /// A module call with keys, claimed as a whole, because it may get further keys.
    WholeCall(String),
    /// Left as it is, because not all that it is computed from is part of the scope.
    OutputBeyond(String),
}

impl Finding {
    /// What the finding does to the confidence in a scope.
    pub fn confidence(&self) -> Confidence {
        match self {
            Self::NothingTargeted
            | Self::ConfigurationUnknown
            | Self::Doubt(_)
            | Self::Unknown(_)
            | Self::Unreadable(_)
            | Self::Unmovable(_) => Confidence::Unsafe,
            Self::Dependent(_)
            | Self::Moved(_)
            | Self::Reshaped(_)
            | Self::Created(_)
            | Self::Coarsened(_) => Confidence::Widened,
            Self::WholeCall(_) | Self::OutputBeyond(_) => Confidence::Safe,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingTargeted => f.write_str("nothing is targeted"),
            Self::ConfigurationUnknown => f.write_str(
                "the configuration is not known, only what was recorded at the last apply",
            ),
            Self::Doubt(what) => write!(f, "the configuration is not fully understood: {what}"),
            Self::Unknown(what) => {
                write!(f, "{what} is neither in the state nor in the configuration")
            }
            Self::Unreadable(what) => write!(f, "the recorded address {what:?} cannot be read"),
            Self::Unmovable(what) => write!(
                f,
                "{what} is to be moved or to change its keys: apply that first, or destroy it, too"
            ),
            Self::Dependent(what) => {
                write!(f, "{what} depends on a target and is destroyed with it")
            }
            Self::Moved(what) => write!(f, "{what} is one end of a pending move and was added"),
            Self::Reshaped(what) => {
                write!(
                    f,
                    "{what} changes its instance keys and was added as a whole"
                )
            }
            Self::Created(what) => write!(f, "{what} is needed, not deployed yet, and was added"),
            Self::Coarsened(what) => write!(f, "{what} is claimed as a whole to keep claims few"),
            Self::WholeCall(what) => {
                write!(f, "{what} has instance keys and is claimed as a whole")
            }
            Self::OutputBeyond(what) => {
                write!(
                    f,
                    "the output {what} reaches beyond the scope: it stays as it is, and may be out of date afterwards"
                )
            }
        }
    }
}

impl Confidence {
    /// The word of the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Widened => "widened",
            Self::Unsafe => "unsafe",
        }
    }

    /// The confidence in a scope with these findings.
    pub fn of(findings: &[Finding]) -> Self {
        findings
            .iter()
            .map(Finding::confidence)
            .max()
            .unwrap_or_default()
    }
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// All findings, the gravest first.
pub(crate) fn findings(facts: Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if facts.nothing_targeted {
        findings.push(Finding::NothingTargeted);
    }
    if facts.configuration_unknown {
        findings.push(Finding::ConfigurationUnknown);
    }
    let mut add = |whats: Vec<String>, finding: fn(String) -> Finding| {
        findings.extend(whats.into_iter().map(finding));
    };
    add(facts.doubts, Finding::Doubt);
    add(facts.unknown, Finding::Unknown);
    add(facts.unreadable, Finding::Unreadable);
    add(facts.unmovable, Finding::Unmovable);
    add(facts.dependents, Finding::Dependent);
    add(facts.moved, Finding::Moved);
    add(facts.reshaped, Finding::Reshaped);
    add(facts.created, Finding::Created);
    add(facts.coarsened, Finding::Coarsened);
    add(facts.whole_calls, Finding::WholeCall);
    add(facts.outputs_beyond, Finding::OutputBeyond);
    findings
}
