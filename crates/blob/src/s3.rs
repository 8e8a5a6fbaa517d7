//! Objects in an S3-compatible bucket.
//!
//! Nothing rests on conditional puts: servers differ in whether they heed them. Buckets are private, encrypted by the store,
//! and expire abandoned uploads after a day; `docs/archives.md` has the rules to set.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt as _};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::multipart::{MultipartStore as _, PartId};
use object_store::path::Path;
use object_store::signer::{HeaderName, HeaderValue, Method, SignedUrlOptions, Signer as _};
use object_store::{ClientOptions, ObjectStore as _, ObjectStoreExt as _, RetryConfig};
use secrecy::{ExposeSecret as _, SecretString};

use crate::signed::CONTENT_TYPE;
use crate::{BlobError, ObjectKey, PutTerms, SignedRequest, Stored};

/// A bucket, and who reaches it.
#[derive(Debug, Clone)]
pub struct S3Settings {
    pub bucket: String,
    pub region: String,
    /// Another server than Amazon's.
    pub endpoint: Option<String>,
    pub access_key: String,
    pub secret_key: SecretString,
    /// The server-side encryption to ask for by name (`AES256`, `aws:kms`); `None`: the bucket's own default.
    pub encryption: Option<String>,
}

/// A store that does not answer for this long is away.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The whole of a request with its repetitions; a job is repeated anyway.
const PATIENCE: Duration = Duration::from_secs(60);

/// A bucket.
#[derive(Debug, Clone)]
pub struct S3 {
    store: AmazonS3,
}

impl S3 {
    pub(crate) fn connect(settings: &S3Settings) -> Result<Self, BlobError> {
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&settings.bucket)
            .with_region(&settings.region)
            .with_access_key_id(&settings.access_key)
            .with_secret_access_key(settings.secret_key.expose_secret())
            .with_client_options(ClientOptions::new().with_timeout(ANSWER_TIMEOUT))
            .with_retry(RetryConfig {
                max_retries: 4,
                retry_timeout: PATIENCE,
                ..RetryConfig::default()
            });
        if let Some(endpoint) = &settings.endpoint {
            let clear_text = endpoint.starts_with("http://");
            builder = builder.with_endpoint(endpoint).with_allow_http(clear_text);
        }
        if let Some(encryption) = &settings.encryption {
            let key: AmazonS3ConfigKey = "aws_server_side_encryption"
                .parse()
                .map_err(|error: object_store::Error| BlobError::Settings(error.to_string()))?;
            builder = builder.with_config(key, encryption);
        }
        let store = builder
            .build()
            .map_err(|error| BlobError::Settings(error.to_string()))?;
        Ok(Self { store })
    }

    pub(crate) async fn upload(&self, key: &ObjectKey) -> Result<S3Upload, BlobError> {
        let path = path(key);
        let id = self.store.create_multipart(&path).await.map_err(failed)?;
        Ok(S3Upload {
            store: self.store.clone(),
            path,
            id,
            parts: Vec::new(),
        })
    }

    pub(crate) async fn abort(&self, key: &ObjectKey, trace: &str) -> Result<(), BlobError> {
        let (path, id) = (path(key), trace.to_owned());
        match self.store.abort_multipart(&path, &id).await {
            // Finished or aborted before, or too old to be known; some servers say "denied" to that.
            Ok(())
            | Err(
                object_store::Error::NotFound { .. } | object_store::Error::PermissionDenied { .. },
            ) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    pub(crate) async fn read(
        &self,
        key: &ObjectKey,
        start: u64,
        end: u64,
    ) -> Result<Bytes, BlobError> {
        let path = path(key);
        let bytes = self.store.get_range(&path, start..end).await;
        let bytes = bytes.map_err(failed)?;
        if bytes.len() as u64 != end.saturating_sub(start) {
            return Err(BlobError::Damaged("it is shorter than it was"));
        }
        Ok(bytes)
    }

    pub(crate) async fn size(&self, key: &ObjectKey) -> Result<u64, BlobError> {
        Ok(self.store.head(&path(key)).await.map_err(failed)?.size)
    }

    pub(crate) fn list(&self, prefix: &str) -> BoxStream<'static, Result<Stored, BlobError>> {
        let prefix = Path::from(prefix.trim_end_matches('/'));
        self.store
            .list(Some(&prefix))
            .filter_map(async |found| match found {
                // What has no key of ours is none of our objects.
                Ok(found) => found.location.as_ref().parse().ok().map(|key| {
                    Ok(Stored {
                        key,
                        size_bytes: found.size,
                    })
                }),
                Err(error) => Some(Err(failed(error))),
            })
            .boxed()
    }

    pub(crate) async fn delete(&self, key: &ObjectKey) -> Result<(), BlobError> {
        match self.store.delete(&path(key)).await.map_err(failed) {
            Err(BlobError::Absent) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn sign_get(
        &self,
        key: &ObjectKey,
        file_name: &str,
        expires_at: u64,
        life: Duration,
    ) -> Result<SignedRequest, BlobError> {
        let options = SignedUrlOptions::new().with_query([
            (
                "response-content-disposition",
                format!("attachment; filename=\"{file_name}\""),
            ),
            ("response-content-type", CONTENT_TYPE.to_owned()),
        ]);
        let path = path(key);
        let signed = self
            .store
            .signed_url_opts(Method::GET, &path, life, &options);
        Ok(SignedRequest {
            method: "GET",
            url: signed.await.map_err(failed)?.to_string(),
            headers: [].into(),
            expires_at,
        })
    }

    pub(crate) async fn sign_put(
        &self,
        key: &ObjectKey,
        terms: &PutTerms,
        expires_at: u64,
        life: Duration,
    ) -> Result<SignedRequest, BlobError> {
        let checksum = terms.checksum();
        let bound = [
            ("content-type", CONTENT_TYPE),
            ("x-amz-checksum-sha256", checksum.as_str()),
        ];
        let mut options = SignedUrlOptions::new();
        for (name, value) in bound {
            let value = HeaderValue::from_str(value)
                .map_err(|_| BlobError::Damaged("a checksum that is no header"))?;
            options = options.with_signed_header(HeaderName::from_static(name), value);
        }
        let path = path(key);
        let signed = self
            .store
            .signed_url_opts(Method::PUT, &path, life, &options);
        Ok(SignedRequest {
            method: "PUT",
            url: signed.await.map_err(failed)?.to_string(),
            headers: bound
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            expires_at,
        })
    }
}

/// An upload in parts.
#[derive(Debug)]
pub struct S3Upload {
    store: AmazonS3,
    path: Path,
    id: String,
    parts: Vec<PartId>,
}

impl S3Upload {
    pub(crate) fn trace(&self) -> String {
        self.id.clone()
    }

    pub(crate) async fn write(&mut self, piece: Bytes) -> Result<(), BlobError> {
        let number = self.parts.len();
        let sent = self
            .store
            .put_part(&self.path, &self.id, number, piece.into());
        self.parts.push(sent.await.map_err(failed)?);
        Ok(())
    }

    pub(crate) async fn finish(self) -> Result<(), BlobError> {
        let done = self
            .store
            .complete_multipart(&self.path, &self.id, self.parts);
        done.await.map(drop).map_err(failed)
    }

    pub(crate) async fn abort(self) -> Result<(), BlobError> {
        let aborted = self.store.abort_multipart(&self.path, &self.id);
        aborted.await.map_err(failed)
    }
}

fn path(key: &ObjectKey) -> Path {
    Path::from(key.as_str())
}

fn failed(error: object_store::Error) -> BlobError {
    match error {
        object_store::Error::NotFound { .. } => BlobError::Absent,
        other => BlobError::Store(Box::new(other)),
    }
}
