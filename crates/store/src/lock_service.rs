//! The heartbeat of the service as a whole: some replica beats, and a gap is noticed by whoever beats next.

use std::sync::{Mutex, PoisonError};

use locking::times::{BEAT_APART, BEAT_GAP, GRACE};
use locking::{Rule, holds};

use crate::{Db, Error};

/// The heartbeat as it is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat {
    /// Grows with every beat. A lower one than before means that the database has lost history.
    pub number: i64,
    /// Grows when an operator has finished a restore.
    pub incarnation: i64,
}

/// Beats, unless another replica has just done so. After a gap nothing may expire for one lease: whoever could not renew
/// during the gap gets the time to.
pub async fn beat(db: &Db) -> Result<Beat, Error> {
    locking::point!(BeatBefore);
    let mut connection = db.system().await?;
    sqlx::query!(
        r#"
            UPDATE lock_service
            SET beat_no = beat_no + 1,
                grace_until = CASE
                    WHEN last_beat < clock_timestamp() - make_interval(secs => $1)
                        THEN clock_timestamp() + make_interval(secs => $2)
                    ELSE grace_until
                END,
                last_beat = clock_timestamp()
            WHERE last_beat < clock_timestamp() - make_interval(secs => $3)
        "#,
        BEAT_GAP.as_seconds(),
        GRACE.as_seconds(),
        BEAT_APART.as_seconds(),
    )
    .execute(&mut *connection)
    .await?;
    let beat = sqlx::query_as!(
        Beat,
        r#"SELECT beat_no AS number, incarnation::bigint AS "incarnation!" FROM lock_service"#,
    )
    .fetch_one(&mut *connection)
    .await?;
    db.history().observe(beat);
    Ok(beat)
}

/// What one process has seen of the heartbeat: enough to notice that the database has become older.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    newest: Option<Beat>,
    is_lost: bool,
}

impl History {
    pub(crate) fn observe(&self, beat: Beat) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = seen.newest.get_or_insert(beat);
        if beat.incarnation > newest.incarnation {
            *newest = beat;
            seen.is_lost = false;
        } else if beat.number < newest.number || beat.incarnation < newest.incarnation {
            if !seen.is_lost && holds(Rule::HistoryLost) {
                tracing::error!(
                    "the database has lost history; nothing is written until `kld restore-finish`"
                );
            }
            seen.is_lost = holds(Rule::HistoryLost);
        } else {
            *newest = beat;
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_beat_is_lost_history_until_the_next_incarnation() {
        let history = History::default();
        let beat = |number, incarnation| Beat {
            number,
            incarnation,
        };
        for one in [beat(7, 1), beat(7, 1), beat(9, 1)] {
            history.observe(one);
            assert!(!history.is_lost());
        }
        history.observe(beat(8, 1));
        assert!(history.is_lost());
        // It grows past what was known, and is another history all the same.
        history.observe(beat(12, 1));
        assert!(history.is_lost());
        history.observe(beat(3, 2));
        assert!(!history.is_lost());
    }
}
