//! What a process was told to do at which step, at run time.

use std::io::Write as _;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use crate::Point;

/// What is to happen at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The process dies, as by a kill: nothing is cleaned up.
    Abort,
    /// The request waits there.
    Pause(Duration),
    /// The request fails there, as if the database had become unreachable.
    Error,
}

/// The failure of a request that was told to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Injected(pub Point);

impl std::fmt::Display for Injected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "told to fail at {}", self.0.name())
    }
}

impl std::error::Error for Injected {}

/// How often a step was passed, and what is armed there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Standing {
    pub passes: u64,
    /// What is to happen, and after how many further passes.
    pub armed: Option<(Action, u64)>,
}

static STANDINGS: LazyLock<Mutex<Vec<Standing>>> =
    LazyLock::new(|| Mutex::new(vec![Standing::default(); Point::ALL.len()]));

fn with<T>(point: Point, act: impl FnOnce(&mut Standing) -> T) -> T {
    let mut standings = STANDINGS.lock().unwrap_or_else(PoisonError::into_inner);
    act(&mut standings[point as usize])
}

/// Has `action` happen once, after the step was passed `after` times more.
pub fn arm(point: Point, action: Action, after: u64) {
    with(point, |standing| standing.armed = Some((action, after)));
}

/// Has nothing happen at the step.
pub fn disarm(point: Point) {
    with(point, |standing| standing.armed = None);
}

/// How often the step was passed, and what is armed there.
#[must_use]
pub fn standing(point: Point) -> Standing {
    with(point, |standing| *standing)
}

/// Whether something is to happen at some step. What does several steps at once is not done then.
#[must_use]
pub fn is_any_armed() -> bool {
    let standings = STANDINGS.lock().unwrap_or_else(PoisonError::into_inner);
    standings.iter().any(|standing| standing.armed.is_some())
}

/// Passes a step.
///
/// # Errors
///
/// When it was told to fail there.
pub async fn pass(point: Point) -> Result<(), Injected> {
    let action = with(point, |standing| {
        standing.passes += 1;
        match &mut standing.armed {
            None => None,
            Some((action, 0)) => {
                let action = *action;
                standing.armed = None;
                Some(action)
            }
            Some((_, after)) => {
                *after -= 1;
                None
            }
        }
    });
    match action {
        None => Ok(()),
        Some(Action::Abort) => {
            let _ = writeln!(std::io::stderr(), "told to die at {}", point.name());
            std::process::abort()
        }
        Some(Action::Pause(time)) => {
            tokio::time::sleep(time).await;
            Ok(())
        }
        Some(Action::Error) => Err(Injected(point)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_armed_happens_once_at_the_pass_it_was_armed_for() {
        let point = Point::BeatBefore;
        arm(point, Action::Error, 2);
        for expected in [true, true, false, true] {
            assert_eq!(pass(point).await.is_ok(), expected);
        }
        assert_eq!(standing(point).passes, 4);
        arm(point, Action::Error, 0);
        disarm(point);
        assert!(pass(point).await.is_ok());
    }
}
