//! Whole state documents, streamed in either direction.

use base64::Engine as _;
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use md5::{Digest as _, Md5};
use protocol::states::ImportAnswer;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Body, Method};

use super::{ApiError, Call, Client, Repeat};
use crate::config::StateAddress;
use crate::output::progress::Progress;

/// A document on its way to the server.
#[derive(Debug)]
pub(crate) struct Upload<'a> {
    pub(crate) document: Bytes,
    /// The id of the Terraform lock it is written under.
    pub(crate) lock_id: Option<&'a str>,
    pub(crate) progress: Progress,
}

/// Small enough for a bar that moves, large enough not to slow the transfer.
const PIECE: usize = 64 * 1024;

/// A body that tells how much of it has been taken.
pub(super) fn in_pieces(document: Bytes, progress: Progress) -> Body {
    progress.restart();
    pieces(document, progress)
}

/// The same for a part of something larger.
pub(super) fn pieces(document: Bytes, progress: Progress) -> Body {
    let mut rest = document;
    Body::wrap_stream(futures::stream::iter(std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let piece = rest.split_to(rest.len().min(PIECE));
        progress.advance(piece.len());
        // Nobody asks for more after the last piece: the length is known.
        if rest.is_empty() {
            progress.sent();
        }
        Some(Ok::<_, std::io::Error>(piece))
    })))
}

impl Client {
    /// The exact bytes of a version, as they arrive, and how many there will be where known.
    pub(crate) async fn get_document(
        &self,
        state: &StateAddress,
        version: &str,
    ) -> Result<
        (
            Option<u64>,
            impl Stream<Item = Result<Bytes, ApiError>> + use<>,
        ),
        ApiError,
    > {
        let mut call = Call::get(state.route(&["versions", version, "document"]));
        call.timeout = None;
        let response = self.send(call).await?;
        let length = response.content_length();
        let server = self.server.clone();
        let bytes = response
            .bytes_stream()
            .map(move |piece| piece.map_err(|error| ApiError::unreachable(&server, &error)));
        Ok((length, bytes))
    }

    /// Writes a document as the next version. The same document again adds no version, so a lost
    /// answer may be made up for by sending it again.
    pub(crate) async fn import_document(
        &self,
        state: &StateAddress,
        upload: Upload<'_>,
    ) -> Result<ImportAnswer, ApiError> {
        let mut url = state.route(&["import"]);
        if let Some(lock_id) = upload.lock_id {
            url.query_pairs_mut().append_pair("ID", lock_id);
        }
        let mut call = Call::new(Method::POST, url, Repeat::Freely);
        call.timeout = None;
        call.progress = Some(upload.progress);
        let digest =
            base64::engine::general_purpose::STANDARD.encode(Md5::digest(&upload.document));
        if let Ok(digest) = HeaderValue::from_str(&digest) {
            call = call.header(HeaderName::from_static("content-md5"), digest);
        }
        self.json(call.body(upload.document)).await
    }
}
