//! Requests that create something and may come twice under one Idempotency-Key.

use protocol::{Code, PrincipalId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use store::WorkspaceTx;
use store::tenancy::idempotency::{self, Claim};

use crate::body::IdempotencyKey;
use crate::error::ApiError;

/// The answer that this request got before, if it came before. Otherwise the key is claimed for the transaction.
pub(crate) async fn answered_before<T: DeserializeOwned>(
    tx: &mut WorkspaceTx,
    principal: &PrincipalId,
    key: Option<&IdempotencyKey>,
) -> Result<Option<T>, ApiError> {
    let Some(key) = key else { return Ok(None) };
    let claim = idempotency::claim(tx, principal, &key.key, &key.request_digest).await?;
    earlier_answer(claim)
}

/// What a claim says about the request.
pub(crate) fn earlier_answer<T: DeserializeOwned>(claim: Claim) -> Result<Option<T>, ApiError> {
    match claim {
        Claim::New => Ok(None),
        Claim::Answered(answer) => serde_json::from_value(answer)
            .map(Some)
            .map_err(|error| ApiError::internal(&error)),
        Claim::Mismatch => Err(ApiError::new(Code::IdempotencyMismatch)),
    }
}

/// Keeps the answer for a repetition. It must hold no secret.
pub(crate) async fn keep_answer(
    tx: &mut WorkspaceTx,
    principal: &PrincipalId,
    key: Option<&IdempotencyKey>,
    answer: &impl Serialize,
) -> Result<(), ApiError> {
    let Some(key) = key else { return Ok(()) };
    let answer = serde_json::to_value(answer).map_err(|error| ApiError::internal(&error))?;
    Ok(idempotency::answer(tx, principal, &key.key, &answer).await?)
}
