//! What a test run tells this process to do at which step, over the metrics listener (docs/faults.md).

use std::time::Duration;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use locking::{Action, Point, Rule};
use serde::{Deserialize, Serialize};

/// The routes; no part of the API.
pub(crate) fn router() -> Router {
    Router::new()
        .route("/faults/points", get(list).delete(disarm_all))
        .route("/faults/points/{name}", post(arm).delete(disarm))
        .route("/faults/rules", get(rules))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arming {
    r#do: Do,
    /// Passes that go by before.
    #[serde(default)]
    after: u64,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Do {
    Abort,
    PauseMs(u64),
    Error,
}

#[derive(Debug, Serialize)]
struct Standing {
    name: &'static str,
    passes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    armed: Option<Armed>,
}

#[derive(Debug, Serialize)]
struct Armed {
    r#do: Do,
    after: u64,
}

#[derive(Debug, Serialize)]
struct RuleStanding {
    name: &'static str,
    holds: bool,
}

async fn list() -> Json<Vec<Standing>> {
    let standing = |point: &Point| {
        let standing = locking::standing(*point);
        Standing {
            name: point.name(),
            passes: standing.passes,
            armed: standing.armed.map(|(action, after)| Armed {
                r#do: spelled(action),
                after,
            }),
        }
    };
    Json(Point::ALL.iter().map(standing).collect())
}

async fn rules() -> Json<Vec<RuleStanding>> {
    let standing = |rule: &Rule| RuleStanding {
        name: rule.name(),
        holds: locking::holds(*rule),
    };
    Json(Rule::ALL.iter().map(standing).collect())
}

async fn arm(Path(name): Path<String>, Json(arming): Json<Arming>) -> StatusCode {
    let Some(point) = Point::find(&name) else {
        return StatusCode::NOT_FOUND;
    };
    let action = match arming.r#do {
        Do::Abort => Action::Abort,
        Do::PauseMs(millis) => Action::Pause(Duration::from_millis(millis)),
        Do::Error => Action::Error,
    };
    locking::arm(point, action, arming.after);
    StatusCode::NO_CONTENT
}

async fn disarm(Path(name): Path<String>) -> StatusCode {
    match Point::find(&name) {
        Some(point) => {
            locking::disarm(point);
            StatusCode::NO_CONTENT
        }
        None => StatusCode::NOT_FOUND,
    }
}

async fn disarm_all() -> StatusCode {
    Point::ALL.iter().copied().for_each(locking::disarm);
    StatusCode::NO_CONTENT
}

fn spelled(action: Action) -> Do {
    match action {
        Action::Abort => Do::Abort,
        Action::Pause(time) => Do::PauseMs(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        Action::Error => Do::Error,
    }
}
