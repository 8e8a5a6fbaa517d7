//! The heartbeat of the service as a whole: some replica beats, and a gap is noticed by whoever beats next.

use std::sync::{Mutex, PoisonError};

use locking::times::{BEAT_APART, BEAT_GAP, GRACE};
use locking::{Rule, holds};
use sqlx::PgConnection;

use crate::{Db, Error};

/// The heartbeat as it is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat {
    /// Grows with every beat. A lower one than before means that the database has lost history; whoever notices makes it
    /// [`STOPPED`].
    pub number: i64,
    /// Grows when an operator has finished a restore.
    pub incarnation: i64,
}

/// The number of a heart that stands still because somebody saw that history is lost. A restored heart catches up with what
/// others remember within as many beats as were lost, and a replica that was started since remembers nothing.
const STOPPED: i64 = -1;

/// Beats, unless another replica has just done so. After a gap nothing may expire for one lease: whoever could not renew
/// during the gap gets the time to.
pub async fn beat(db: &Db) -> Result<Beat, Error> {
    locking::point!(BeatBefore);
    let mut connection = db.system().await?;
    // Before it beats: its own beat could be the one that makes up for those that were lost.
    let found = read_beat(&mut connection).await?;
    if db.history().observe(found) {
        stop_beating(&mut connection, found).await?;
        return Ok(found);
    }
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
            WHERE last_beat < clock_timestamp() - make_interval(secs => $3) AND beat_no >= 0
        "#,
        BEAT_GAP.as_seconds(),
        GRACE.as_seconds(),
        BEAT_APART.as_seconds(),
    )
    .execute(&mut *connection)
    .await?;
    let beat = read_beat(&mut connection).await?;
    db.history().observe(beat);
    Ok(beat)
}

async fn read_beat(connection: &mut PgConnection) -> Result<Beat, Error> {
    let beat = sqlx::query_as!(
        Beat,
        r#"SELECT beat_no AS number, incarnation::bigint AS "incarnation!" FROM lock_service"#,
    )
    .fetch_one(connection)
    .await?;
    Ok(beat)
}

/// Tells every replica, unless the restore was finished since.
async fn stop_beating(connection: &mut PgConnection, lost: Beat) -> Result<(), Error> {
    sqlx::query!(
        "UPDATE lock_service SET beat_no = $2 WHERE incarnation::bigint = $1 AND beat_no >= 0",
        lost.incarnation,
        STOPPED,
    )
    .execute(connection)
    .await?;
    Ok(())
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
    /// Answers whether history is lost.
    pub(crate) fn observe(&self, beat: Beat) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = seen.newest.get_or_insert(beat);
        let is_older = beat.number < newest.number || beat.incarnation < newest.incarnation;
        if beat.incarnation > newest.incarnation && beat.number >= 0 {
            *newest = beat;
            seen.is_lost = false;
        } else if is_older || beat.number < 0 {
            if !seen.is_lost && holds(Rule::HistoryLost) {
                tracing::error!(
                    "the database has lost history; nothing is written until `kld restore-finish`"
                );
            }
            seen.is_lost = holds(Rule::HistoryLost);
        } else {
            *newest = beat;
        }
        seen.is_lost
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
            assert!(!history.observe(one));
        }
        assert!(history.observe(beat(8, 1)));
        // It grows past what was known, and is another history all the same.
        assert!(history.observe(beat(12, 1)));
        assert!(history.is_lost());
        assert!(!history.observe(beat(3, 2)));
        assert!(!history.is_lost());
        // Somebody else has noticed, in this life or in a later one.
        assert!(history.observe(beat(STOPPED, 2)));
        assert!(!history.observe(beat(4, 3)));
        assert!(history.observe(beat(STOPPED, 4)));
        // Whoever has seen nothing yet notices as well.
        assert!(History::default().observe(beat(STOPPED, 1)));
    }
}
