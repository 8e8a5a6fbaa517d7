//! Lock modes of nodes: hierarchical locking with intention modes.
//!
//! A node in S or X is claimed with everything beneath it; IS and IX say that something beneath it
//! is claimed for reading or writing; SIX says that all of it is read and a part of it written.

use std::fmt;
use std::str::FromStr;

/// The mode of one node. The order of the variants is that of the compatibility table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum NodeMode {
    Is,
    Ix,
    S,
    Six,
    X,
}

/// A text that is no mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a mode is one of IS, IX, S, SIX and X")]
pub struct ModeError;

impl NodeMode {
    pub const ALL: [Self; 5] = [Self::Is, Self::Ix, Self::S, Self::Six, Self::X];

    /// The mode's own bit: 1, 2, 4, 8 or 16.
    pub fn bit(self) -> u8 {
        1 << self as u8
    }

    /// The bits of all modes that exclude this one. Two modes conflict exactly if
    /// `a.bit() & b.conflict_mask() != 0`, which SQL and scripts can compute from two columns.
    pub fn conflict_mask(self) -> u8 {
        let compatible = match self {
            Self::Is => Self::Is.bit() | Self::Ix.bit() | Self::S.bit() | Self::Six.bit(),
            Self::Ix => Self::Is.bit() | Self::Ix.bit(),
            Self::S => Self::Is.bit() | Self::S.bit(),
            Self::Six => Self::Is.bit(),
            Self::X => 0,
        };
        0b1_1111 & !compatible
    }

    pub fn conflicts_with(self, other: Self) -> bool {
        self.bit() & other.conflict_mask() != 0
    }

    /// The weakest mode that grants what both grant.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        use NodeMode::{Is, Ix, S, Six, X};
        match (self, other) {
            (X, _) | (_, X) => X,
            (Six, _) | (_, Six) | (Ix, S) | (S, Ix) => Six,
            (S, _) | (_, S) => S,
            (Ix, _) | (_, Ix) => Ix,
            (Is, Is) => Is,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Is => "IS",
            Self::Ix => "IX",
            Self::S => "S",
            Self::Six => "SIX",
            Self::X => "X",
        }
    }
}

impl FromStr for NodeMode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or(ModeError)
    }
}

impl fmt::Display for NodeMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::NodeMode::{self, Is, Ix, S, Six, X};

    #[test]
    fn the_compatibility_table_is_that_of_the_design() {
        // Rows: held; columns: asked, in the order IS IX S SIX X.
        let table = [
            (Is, [true, true, true, true, false]),
            (Ix, [true, true, false, false, false]),
            (S, [true, false, true, false, false]),
            (Six, [true, false, false, false, false]),
            (X, [false, false, false, false, false]),
        ];
        for (held, row) in table {
            for (asked, compatible) in NodeMode::ALL.into_iter().zip(row) {
                assert_eq!(!held.conflicts_with(asked), compatible, "{held} {asked}");
            }
        }
    }

    #[test]
    fn a_join_conflicts_with_what_either_side_conflicts_with() {
        for a in NodeMode::ALL {
            for b in NodeMode::ALL {
                let joined = a.join(b);
                assert_eq!(joined, b.join(a));
                let both = a.conflict_mask() | b.conflict_mask();
                assert_eq!(joined.conflict_mask(), both, "{a} {b} {joined}");
            }
        }
    }

    #[test]
    fn words_read_back() {
        for mode in NodeMode::ALL {
            assert_eq!(mode.as_str().parse(), Ok(mode));
        }
        assert!("six".parse::<NodeMode>().is_err());
    }
}
