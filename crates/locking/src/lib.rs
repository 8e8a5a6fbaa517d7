//! The protocol of locks and commits by its names: how long things take, which rules hold, and which steps there are.
//!
//! What the protocol does stands where it is done, in `store`, `coordination` and `engine`. Here is what those share: the
//! [`times`], so that one place says how they relate, and the names of [`Rule`]s and [`Point`]s, by which a build with the
//! feature `faults` can be told to break a rule or to stop at a step (`docs/faults.md`). Without the feature every rule
//! holds, no step stops, and nothing of this is left in the program.
//!
//! To add a step: name it in `points.rs`, pass it with [`point!`], and list it in `docs/faults.md`. A rule the same way.

#[cfg(feature = "faults")]
mod armed;
mod names;
mod points;
mod rules;
pub mod times;

#[cfg(feature = "faults")]
pub use armed::{Action, Injected, Standing, arm, disarm, is_any_armed, pass, standing};
pub use points::Point;
pub use rules::{Rule, holds};
#[cfg(feature = "faults")]
pub use rules::{check_settings, switched_off};

/// Whether something is to happen at some step: never, without the feature `faults`.
#[cfg(not(feature = "faults"))]
#[must_use]
pub const fn is_any_armed() -> bool {
    false
}
