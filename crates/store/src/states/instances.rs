//! Instance rows: what lives at the head, what a commit closes and opens, pages of a version.

use std::borrow::Cow;

use futures::TryStreamExt;
use uuid::Uuid;

use crate::{Error, WorkspaceTx};

/// Rows per statement. About a thousand is where UNNEST is as fast as COPY (measured: 108,000 rows/s)
/// and the argument arrays stay at a few megabytes.
pub(super) const BATCH: usize = 1_000;

/// Bytes of rows after which no more are added to a block: its arguments are held twice on their way out.
const BATCH_BYTES: usize = 8 << 20;

/// A live row of the head, as a comparison needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveRow {
    pub ord: Vec<u8>,
    pub digest: [u8; 32],
}

/// An instance to be born. Borrowed from the posted document wherever that was possible.
#[derive(Debug, Clone)]
pub struct NewInstance<'a> {
    pub ord: Cow<'a, [u8]>,
    pub kind: &'static str,
    pub address: String,
    pub config_address: String,
    pub module: Cow<'a, str>,
    pub mode: &'static str,
    pub resource_type: Cow<'a, str>,
    pub name: Cow<'a, str>,
    pub index_key: Option<Cow<'a, str>>,
    pub deposed: Option<Cow<'a, str>>,
    pub provider: Option<Cow<'a, str>>,
    pub block: Cow<'a, [u8]>,
    pub body: Cow<'a, [u8]>,
    pub digest: [u8; 32],
    pub dependencies: Vec<String>,
}

impl NewInstance<'_> {
    /// How many bytes its texts have, those that it shares with others included.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let bytes = [&self.ord, &self.block, &self.body].map(|bytes| bytes.len());
        let texts = [&self.module, &self.resource_type, &self.name].map(|text| text.len());
        let perhaps = [&self.index_key, &self.deposed, &self.provider];
        let perhaps = perhaps.map(|text| text.as_ref().map_or(0, |text| text.len()));
        let of_others = self.dependencies.iter().map(String::len);
        let counted = bytes.into_iter().chain(texts).chain(perhaps);
        counted.chain(of_others).sum::<usize>() + self.address.len() + self.config_address.len()
    }

    /// The same, borrowing nothing.
    #[must_use]
    pub fn into_owned(self) -> NewInstance<'static> {
        NewInstance {
            ord: owned(self.ord),
            kind: self.kind,
            address: self.address,
            config_address: self.config_address,
            module: owned(self.module),
            mode: self.mode,
            resource_type: owned(self.resource_type),
            name: owned(self.name),
            index_key: self.index_key.map(owned),
            deposed: self.deposed.map(owned),
            provider: self.provider.map(owned),
            block: owned(self.block),
            body: owned(self.body),
            digest: self.digest,
            dependencies: self.dependencies,
        }
    }
}

pub(super) fn owned<T: ToOwned + ?Sized>(borrowed: Cow<'_, T>) -> Cow<'static, T> {
    Cow::Owned(borrowed.into_owned())
}

/// One row of a page, in document order.
#[derive(Debug)]
pub struct RowPage {
    pub ord: Vec<u8>,
    pub kind: String,
    pub block: Vec<u8>,
    pub body: Vec<u8>,
    pub digest: Vec<u8>,
}

/// Place and digest of every live row, in document order.
pub async fn list_live_rows(tx: &mut WorkspaceTx, state_id: Uuid) -> Result<Vec<LiveRow>, Error> {
    let workspace = tx.workspace().clone();
    let mut rows = sqlx::query!(
        r#"
            SELECT ord, body_digest
            FROM instances
            WHERE workspace_id = $1 AND state_id = $2 AND dies_seq IS NULL
            ORDER BY ord
        "#,
        workspace.as_str(),
        state_id,
    )
    .fetch(&mut **tx);
    let mut live = Vec::new();
    while let Some(row) = rows.try_next().await? {
        live.push(LiveRow {
            ord: row.ord,
            digest: digest(&row.body_digest)?,
        });
    }
    Ok(live)
}

/// Place and digest of every row of version `seq`, in document order.
pub async fn list_rows_at(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    seq: i64,
) -> Result<Vec<LiveRow>, Error> {
    let rows = sqlx::query!(
        r#"
            SELECT ord, body_digest
            FROM instances
            WHERE workspace_id = $1 AND state_id = $2
              AND born_seq <= $3 AND (dies_seq IS NULL OR dies_seq > $3)
            ORDER BY ord
        "#,
        tx.workspace().as_str(),
        state_id,
        seq,
    )
    .fetch_all(&mut **tx)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(LiveRow {
                ord: row.ord,
                digest: digest(&row.body_digest)?,
            })
        })
        .collect()
}

/// A live row at a place that was asked for.
#[derive(Debug, Clone)]
pub struct RowAt {
    pub ord: Vec<u8>,
    pub kind: String,
    pub digest: [u8; 32],
}

/// What lives at these places. Each is looked up on its own: see [`close_instances`].
pub async fn live_rows_at(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    places: &[Vec<u8>],
) -> Result<Vec<RowAt>, Error> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        r#"
            SELECT i.ord, i.kind, i.body_digest
            FROM unnest($3::bytea[]) AS place (ord)
            CROSS JOIN LATERAL (
                SELECT ord, kind, body_digest
                FROM instances
                WHERE workspace_id = $1 AND state_id = $2 AND instances.ord = place.ord AND dies_seq IS NULL
                OFFSET 0
            ) AS i
        "#,
        tx.workspace().as_str(),
        state_id,
        places,
    )
    .fetch_all(&mut **tx)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(RowAt {
                digest: digest(&row.body_digest)?,
                ord: row.ord,
                kind: row.kind,
            })
        })
        .collect()
}

pub(super) fn digest(bytes: &[u8]) -> Result<[u8; 32], Error> {
    bytes
        .try_into()
        .map_err(|_| Error::impossible("instances", "a digest is not 32 bytes"))
}

/// Ends the life of the live rows at these places. Every one must be live: fewer closed rows than
/// places means that the comparison was made against something else, and nothing may be committed.
pub async fn close_instances(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    seq: i64,
    places: &[Vec<u8>],
) -> Result<(), Error> {
    for batch in places.chunks(BATCH) {
        let closed = sqlx::query_scalar!(
            r#"SELECT close_instances($1, $2, $3, $4) AS "closed!""#,
            tx.workspace().as_str(),
            state_id,
            seq,
            batch,
        )
        .fetch_one(&mut **tx)
        .await?;
        all_closed(closed, batch)?;
    }
    Ok(())
}

/// Fails unless so many rows were closed as were to be.
pub(super) fn all_closed(closed: i64, places: &[Vec<u8>]) -> Result<(), Error> {
    if closed == places.len() as i64 {
        Ok(())
    } else {
        Err(Error::Moved(
            "the rows of the head are not those compared with",
        ))
    }
}

/// Columns of one batch of births, one array per column.
#[derive(Default)]
pub(super) struct Columns<'a> {
    pub(super) ord: Vec<&'a [u8]>,
    pub(super) kind: Vec<&'a str>,
    pub(super) address: Vec<&'a str>,
    pub(super) config_address: Vec<&'a str>,
    pub(super) module: Vec<&'a str>,
    pub(super) mode: Vec<&'a str>,
    pub(super) resource_type: Vec<&'a str>,
    pub(super) name: Vec<&'a str>,
    pub(super) index_key: Vec<Option<&'a str>>,
    pub(super) deposed: Vec<Option<&'a str>>,
    pub(super) provider: Vec<Option<&'a str>>,
    pub(super) block: Vec<&'a [u8]>,
    pub(super) body: Vec<&'a [u8]>,
    pub(super) digest: Vec<&'a [u8]>,
    /// Lists of lists do not exist as arrays: joined by newline, which no address holds.
    pub(super) dependencies: Vec<String>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(batch: &'a [NewInstance<'a>]) -> Self {
        let mut columns = Self::default();
        batch.iter().for_each(|row| columns.push(row));
        columns
    }

    fn push(&mut self, row: &'a NewInstance<'a>) {
        self.ord.push(&row.ord);
        self.kind.push(row.kind);
        self.address.push(&row.address);
        self.config_address.push(&row.config_address);
        self.module.push(&row.module);
        self.mode.push(row.mode);
        self.resource_type.push(&row.resource_type);
        self.name.push(&row.name);
        self.index_key.push(row.index_key.as_deref());
        self.deposed.push(row.deposed.as_deref());
        self.provider.push(row.provider.as_deref());
        self.block.push(&row.block);
        self.body.push(&row.body);
        self.digest.push(&row.digest);
        self.dependencies.push(row.dependencies.join("\n"));
    }
}

/// The rows in blocks: bounded in number and, but for a single row that is larger, in bytes.
pub(super) fn batches<'r, 'a>(
    mut rows: &'r [NewInstance<'a>],
) -> impl Iterator<Item = &'r [NewInstance<'a>]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |row: &&NewInstance<'_>| {
            bytes += row.body.len() + row.block.len();
            bytes <= BATCH_BYTES
        };
        let count = rows.iter().take(BATCH).take_while(fits).count().max(1);
        let (batch, rest) = rows.split_at_checked(count)?;
        rows = rest;
        Some(batch)
    })
}

/// Gives birth to rows at `seq`, in blocks.
pub async fn insert_instances(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    seq: i64,
    rows: &[NewInstance<'_>],
) -> Result<(), Error> {
    for batch in batches(rows) {
        let columns = Columns::of(batch);
        sqlx::query!(
            r#"
                INSERT INTO instances (
                    workspace_id, state_id, born_seq, ord, kind, address, config_address, module, mode,
                    type, name, index_key, deposed, provider, block, body, body_digest, dependencies
                )
                SELECT $1, $2, $3, u.ord, u.kind, u.address, u.config_address, u.module, u.mode, u.type,
                       u.name, u.index_key, u.deposed, u.provider, u.block, u.body, u.digest,
                       string_to_array(u.dependencies, E'\n')
                FROM unnest(
                    $4::bytea[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
                    $11::text[], $12::text[], $13::text[], $14::text[], $15::bytea[], $16::bytea[],
                    $17::bytea[], $18::text[]
                ) AS u (
                    ord, kind, address, config_address, module, mode, type, name, index_key, deposed,
                    provider, block, body, digest, dependencies
                )
            "#,
            tx.workspace().as_str(),
            state_id,
            seq,
            &columns.ord as &[&[u8]],
            &columns.kind as &[&str],
            &columns.address as &[&str],
            &columns.config_address as &[&str],
            &columns.module as &[&str],
            &columns.mode as &[&str],
            &columns.resource_type as &[&str],
            &columns.name as &[&str],
            &columns.index_key as &[Option<&str>],
            &columns.deposed as &[Option<&str>],
            &columns.provider as &[Option<&str>],
            &columns.block as &[&[u8]],
            &columns.body as &[&[u8]],
            &columns.digest as &[&[u8]],
            &columns.dependencies,
        )
        .execute(&mut **tx)
        .await?;
    }
    Ok(())
}

/// Up to `limit` rows of version `seq` behind the place `after` (empty: from the start).
pub async fn page_of_rows(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    seq: i64,
    after: &[u8],
    limit: i64,
) -> Result<Vec<RowPage>, Error> {
    let rows = sqlx::query_as!(
        RowPage,
        r#"
            SELECT ord, kind, block, body, body_digest AS digest
            FROM instances
            WHERE workspace_id = $1 AND state_id = $2 AND ord > $4
              AND born_seq <= $3 AND (dies_seq IS NULL OR dies_seq > $3)
            ORDER BY ord
            LIMIT $5
        "#,
        tx.workspace().as_str(),
        state_id,
        seq,
        after,
        limit,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows)
}
