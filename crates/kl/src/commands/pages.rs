//! Reading a list to its end, page by page.

use crate::client::ApiError;

/// Calls `fetch` with the cursor of each page in turn and gathers the entries.
pub(super) async fn all<T>(
    mut fetch: impl AsyncFnMut(Option<String>) -> Result<(Vec<T>, Option<String>), ApiError>,
) -> Result<Vec<T>, ApiError> {
    let mut entries = Vec::new();
    let mut cursor = None;
    loop {
        let (page, next) = fetch(cursor).await?;
        entries.extend(page);
        match next {
            Some(next) => cursor = Some(next),
            None => return Ok(entries),
        }
    }
}
