//! A set of roles.

use protocol::Role;

/// Several roles at once: those that allow an action, or those a principal has somewhere.
///
/// A set and not a highest role, because `outputs` and `auditor` stand beside the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Roles(u8);

impl Roles {
    /// No role.
    pub const NONE: Self = Self(0);
    /// Every role.
    pub const ALL: Self = Self::of(&Role::ALL);

    /// The set of these roles.
    #[must_use]
    pub const fn of(roles: &[Role]) -> Self {
        let mut set = Self::NONE;
        let mut at = 0;
        while at < roles.len() {
            set = set.and(roles[at]);
            at += 1;
        }
        set
    }

    /// The set with one more role.
    #[must_use]
    pub const fn and(self, role: Role) -> Self {
        Self(self.0 | 1 << role as u8)
    }

    /// Whether the role is in the set.
    #[must_use]
    pub const fn contains(self, role: Role) -> bool {
        self.0 & (1 << role as u8) != 0
    }

    /// Whether the sets share a role.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Self {
        roles.into_iter().fold(Self::NONE, Self::and)
    }
}
