//! What versions changed: rows and outputs that began or ended in each of some that follow each other.
//!
//! Several versions are read at once, because most change little and each statement costs a round trip.

use uuid::Uuid;

use crate::states::OutputRow;
use crate::{Error, WorkspaceTx};

/// What a version changed against the one before it in the list that was asked for. Rows are in document order, outputs in
/// that of their names.
#[derive(Debug, Clone, Default)]
pub struct ChangesOfVersion {
    /// Rows that appeared, changed ones among them.
    pub born: Vec<BornRow>,
    /// Rows that ended, changed ones among them.
    pub closed: Vec<ClosedRow>,
    pub outputs_born: Vec<OutputRow>,
    /// Names and digests.
    pub outputs_closed: Vec<(String, Vec<u8>)>,
}

/// A row that ended in a version.
#[derive(Debug, Clone)]
pub struct ClosedRow {
    pub ord: Vec<u8>,
    pub digest: Vec<u8>,
}

/// A row that began in a version.
#[derive(Debug, Clone)]
pub struct BornRow {
    pub ord: Vec<u8>,
    pub block: Vec<u8>,
    pub body: Vec<u8>,
    pub digest: Vec<u8>,
}

/// Versions of which each is compared with the one before it, the first one with `before`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionSpan<'a> {
    pub before: i64,
    /// Ascending.
    pub seqs: &'a [i64],
}

impl VersionSpan<'_> {
    fn last(self) -> i64 {
        self.seqs.last().copied().unwrap_or(self.before)
    }

    /// The version in which something shows that happened at `seq`, as its index.
    fn index(self, seq: i64) -> usize {
        self.seqs.partition_point(|listed| *listed < seq)
    }

    /// The version before the one with this index.
    fn before(self, index: usize) -> i64 {
        index
            .checked_sub(1)
            .map_or(self.before, |index| self.seqs[index])
    }

    /// Where something shows that began at `born`, if it lived that long.
    fn of_birth(self, born: i64, dies: Option<i64>) -> Option<usize> {
        let index = self.index(born);
        dies.is_none_or(|dies| dies > self.seqs[index])
            .then_some(index)
    }

    /// Where something shows that ended at `dies`, if it had begun by then.
    fn of_death(self, born: i64, dies: i64) -> Option<usize> {
        let index = self.index(dies);
        (born <= self.before(index)).then_some(index)
    }
}

/// How many bytes of rows and outputs began in each version after `before` up to `last`; versions without any are left out.
pub async fn born_bytes(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    before: i64,
    last: i64,
) -> Result<Vec<(i64, i64)>, Error> {
    let workspace = tx.workspace().clone();
    let sizes = sqlx::query!(
        r#"
            SELECT born_seq AS "born_seq!", sum(bytes)::bigint AS "bytes!"
            FROM (
                SELECT born_seq, octet_length(body) + octet_length(block) AS bytes
                FROM instances
                WHERE workspace_id = $1 AND state_id = $2 AND born_seq > $3 AND born_seq <= $4
                UNION ALL
                SELECT born_seq, octet_length(body)
                FROM outputs
                WHERE workspace_id = $1 AND state_id = $2 AND born_seq > $3 AND born_seq <= $4
            ) AS born
            GROUP BY born_seq
        "#,
        workspace.as_str(),
        state_id,
        before,
        last,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(sizes
        .into_iter()
        .map(|size| (size.born_seq, size.bytes))
        .collect())
}

/// What each version of the span changed.
pub async fn changes_of_versions(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    span: VersionSpan<'_>,
) -> Result<Vec<ChangesOfVersion>, Error> {
    let mut changes = vec![ChangesOfVersion::default(); span.seqs.len()];
    add_rows(tx, state_id, span, &mut changes).await?;
    add_outputs(tx, state_id, span, &mut changes).await?;
    for change in &mut changes {
        change.born.sort_unstable_by(|a, b| a.ord.cmp(&b.ord));
        change.closed.sort_unstable_by(|a, b| a.ord.cmp(&b.ord));
        change
            .outputs_born
            .sort_unstable_by(|a, b| a.name.cmp(&b.name));
        change.outputs_closed.sort_unstable();
    }
    Ok(changes)
}

async fn add_rows(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    span: VersionSpan<'_>,
    changes: &mut [ChangesOfVersion],
) -> Result<(), Error> {
    let workspace = tx.workspace().clone();
    let born = sqlx::query!(
        r#"
            SELECT born_seq, dies_seq, ord, block, body, body_digest
            FROM instances
            WHERE workspace_id = $1 AND state_id = $2 AND born_seq > $3 AND born_seq <= $4
        "#,
        workspace.as_str(),
        state_id,
        span.before,
        span.last(),
    )
    .fetch_all(&mut **tx)
    .await?;
    for row in born {
        if let Some(index) = span.of_birth(row.born_seq, row.dies_seq) {
            changes[index].born.push(BornRow {
                ord: row.ord,
                block: row.block,
                body: row.body,
                digest: row.body_digest,
            });
        }
    }
    let closed = sqlx::query!(
        r#"
            SELECT born_seq, dies_seq AS "dies_seq!", ord, body_digest
            FROM instances
            WHERE workspace_id = $1 AND state_id = $2 AND dies_seq > $3 AND dies_seq <= $4
        "#,
        workspace.as_str(),
        state_id,
        span.before,
        span.last(),
    )
    .fetch_all(&mut **tx)
    .await?;
    for row in closed {
        if let Some(index) = span.of_death(row.born_seq, row.dies_seq) {
            changes[index].closed.push(ClosedRow {
                ord: row.ord,
                digest: row.body_digest,
            });
        }
    }
    Ok(())
}

async fn add_outputs(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    span: VersionSpan<'_>,
    changes: &mut [ChangesOfVersion],
) -> Result<(), Error> {
    let workspace = tx.workspace().clone();
    let born = sqlx::query!(
        r#"
            SELECT born_seq, dies_seq, name, name_token, body, body_digest
            FROM outputs
            WHERE workspace_id = $1 AND state_id = $2 AND born_seq > $3 AND born_seq <= $4
        "#,
        workspace.as_str(),
        state_id,
        span.before,
        span.last(),
    )
    .fetch_all(&mut **tx)
    .await?;
    for row in born {
        if let Some(index) = span.of_birth(row.born_seq, row.dies_seq) {
            changes[index].outputs_born.push(OutputRow {
                name: row.name,
                name_token: row.name_token,
                body: row.body,
                digest: row.body_digest,
            });
        }
    }
    let closed = sqlx::query!(
        r#"
            SELECT born_seq, dies_seq AS "dies_seq!", name, body_digest
            FROM outputs
            WHERE workspace_id = $1 AND state_id = $2 AND dies_seq > $3 AND dies_seq <= $4
        "#,
        workspace.as_str(),
        state_id,
        span.before,
        span.last(),
    )
    .fetch_all(&mut **tx)
    .await?;
    for row in closed {
        if let Some(index) = span.of_death(row.born_seq, row.dies_seq) {
            changes[index]
                .outputs_closed
                .push((row.name, row.body_digest));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: VersionSpan<'_> = VersionSpan {
        before: 3,
        seqs: &[4, 7, 9],
    };

    #[test]
    fn what_begins_between_two_listed_versions_shows_in_the_later_one() {
        assert_eq!(SPAN.of_birth(4, None), Some(0));
        assert_eq!(SPAN.of_birth(5, None), Some(1));
        assert_eq!(SPAN.of_birth(8, Some(10)), Some(2));
    }

    #[test]
    fn what_ends_before_a_listed_version_sees_it_never_shows() {
        assert_eq!(SPAN.of_birth(5, Some(7)), None);
        assert_eq!(SPAN.of_death(5, 7), None);
    }

    #[test]
    fn what_a_listed_version_has_seen_ends_in_the_next_one() {
        assert_eq!(SPAN.of_death(4, 6), Some(1));
        assert_eq!(SPAN.of_death(1, 4), Some(0));
        assert_eq!(SPAN.of_death(7, 8), Some(2));
    }
}
