//! The heartbeat of the service as a whole: some replica beats, and a gap is noticed by whoever beats next.

use crate::{Db, Error};

/// How often each replica offers a beat; one of them lands.
pub const BEAT_SECONDS: u64 = 5;

/// Beats, unless another replica has just done so. After a gap of more than 15 seconds nothing may expire for one
/// lease (60 s): whoever could not renew during the gap gets the time to.
pub async fn beat(db: &Db) -> Result<(), Error> {
    sqlx::query!(
        r#"
            UPDATE lock_service
            SET beat_no = beat_no + 1,
                grace_until = CASE
                    WHEN last_beat < clock_timestamp() - interval '15 seconds'
                        THEN clock_timestamp() + interval '60 seconds'
                    ELSE grace_until
                END,
                last_beat = clock_timestamp()
            WHERE last_beat < clock_timestamp() - interval '4 seconds'
        "#,
    )
    .execute(&mut *db.system().await?)
    .await?;
    Ok(())
}
