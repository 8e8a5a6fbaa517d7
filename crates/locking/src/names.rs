//! Enums whose variants have names for people.

/// An enum with a name for each variant, and a list of all.
macro_rules! named {
    (
        $(#[$meta:meta])*
        $type:ident { $($(#[$doc:meta])+ $variant:ident = $name:literal,)+ }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $type {
            $($(#[$doc])+ $variant,)+
        }

        impl $type {
            /// All there are.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Its name for people.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The one of this name.
            #[must_use]
            pub fn find(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.name() == name)
            }
        }
    };
}

pub(crate) use named;

#[cfg(test)]
mod tests {
    use crate::{Point, Rule};

    const PAGE: &str = include_str!("../../../docs/faults.md");

    #[test]
    fn every_point_and_every_rule_is_on_the_page_and_has_a_name_of_its_own() {
        let points = Point::ALL.iter().map(|point| point.name());
        let mut names: Vec<_> = points
            .chain(Rule::ALL.iter().map(|rule| rule.name()))
            .collect();
        for name in &names {
            assert!(PAGE.contains(&format!("`{name}`")), "{name}");
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
