//! Where archives are kept: `KL_BLOBS` and what belongs to it.

use std::path::Path;

use blob::{Blobs, S3Settings, Signing};
use engine::Engine;
use engine::archive::{ArchiveLimits, Archives, PublicKey, object_signing_key};
use secrecy::{ExposeSecret as _, SecretBox};

use super::{ConfigError, Source, mistake};

/// The place for archives, ready to be used.
#[derive(Debug)]
pub struct ArchiveConfig {
    /// `KL_BLOBS`: `file:/path` for a folder that all replicas and workers share, `s3://bucket` for a bucket. Empty: the
    /// deployment keeps no archives. For a bucket also `KL_S3_REGION` (`us-east-1`), `KL_S3_ENDPOINT` for another server
    /// than Amazon's, `KL_S3_ACCESS_KEY`, `KL_S3_SECRET_KEY`, and `KL_S3_ENCRYPTION` (`AES256`, `aws:kms`) where the
    /// bucket's own default is not to be relied on.
    pub blobs: Option<Blobs>,
    /// `KL_TRUSTED_ARCHIVE_KEYS`: public keys of other deployments, in base64 and separated by commas, whose archives are
    /// taken as this deployment's own.
    pub trusted: Vec<PublicKey>,
    /// What archives may take, for each workspace the same: `KL_ARCHIVE_BYTES`, the largest archive that is taken in or
    /// written (64 GiB); `KL_ARCHIVE_UNPACKED_BYTES`, the most one may unpack to (1 TiB); `KL_ARCHIVE_VERSIONS`, the most
    /// versions of one (10,000, which is also the format's limit); `KL_ARCHIVE_MEMORY_BYTES`, memory for reading one
    /// (512 MiB); `KL_ARCHIVE_ATTEMPT_SECONDS`, how long a worker may be at a job before it is given up (43,200);
    /// `KL_ARCHIVE_JOBS`, jobs that run at once (2); `KL_ARCHIVE_IMPORTS`, imports that have not ended (20);
    /// `KL_ARCHIVE_EXPORTS_A_DAY` (100); `KL_ARCHIVE_KEEP_SECONDS`, how long an archive can be downloaded (604,800).
    pub limits: ArchiveLimits,
}

const FIX: &str = "write file:/an/absolute/path or s3://bucket";

impl ArchiveConfig {
    pub(super) fn load(
        source: &Source,
        deployment_key: &SecretBox<[u8; 32]>,
    ) -> Result<Self, ConfigError> {
        let blobs = match source.get("blobs") {
            None => None,
            Some(place) => Some(open(source, &place, deployment_key)?),
        };
        Ok(Self {
            blobs,
            trusted: trusted(source)?,
            limits: limits(source)?,
        })
    }

    /// The use cases of archives, if there is a place for any.
    #[must_use]
    pub fn archives(&self, engine: &Engine, deployment_key: &[u8; 32]) -> Option<Archives> {
        let blobs = self.blobs.clone()?;
        Some(Archives::new(
            engine.clone(),
            blobs,
            deployment_key,
            &self.trusted,
            self.limits,
        ))
    }
}

fn open(
    source: &Source,
    place: &str,
    deployment_key: &SecretBox<[u8; 32]>,
) -> Result<Blobs, ConfigError> {
    let opened = if let Some(path) = place.strip_prefix("file:") {
        if !Path::new(path).is_absolute() {
            return Err(mistake("blobs", format!("{place:?} is not usable"), FIX));
        }
        let signing = Signing::new(object_signing_key(deployment_key.expose_secret()));
        Blobs::local(path.into(), signing)
    } else if let Some(bucket) = place.strip_prefix("s3://") {
        Blobs::s3(&S3Settings {
            bucket: bucket.trim_end_matches('/').to_owned(),
            region: source
                .get("s3_region")
                .unwrap_or_else(|| "us-east-1".to_owned()),
            endpoint: source.get("s3_endpoint"),
            access_key: source
                .get("s3_access_key")
                .ok_or_else(|| mistake("s3_access_key", "is not set", "set it for the bucket"))?,
            secret_key: source.get_secret(
                "s3_secret_key",
                "set it, or KL_S3_SECRET_KEY_FILE, for the bucket",
            )?,
            encryption: source.get("s3_encryption"),
        })
    } else {
        return Err(mistake("blobs", format!("{place:?} is not usable"), FIX));
    };
    opened.map_err(|error| mistake("blobs", telemetry::Chain(&error).to_string(), FIX))
}

fn limits(source: &Source) -> Result<ArchiveLimits, ConfigError> {
    const FIX: &str = "write a whole number above 0";
    let usual = ArchiveLimits::default();
    let number = |key: &str, usual: i64| -> Result<i64, ConfigError> {
        let number = source.parse(key, usual, FIX)?;
        if number < 1 {
            return Err(mistake(key, "is not above 0", FIX));
        }
        Ok(number)
    };
    let amount = |key: &str, usual: u64| {
        let usual = i64::try_from(usual).unwrap_or(i64::MAX);
        number(key, usual).map(i64::unsigned_abs)
    };
    Ok(ArchiveLimits {
        archive_bytes: amount("archive_bytes", usual.archive_bytes)?,
        unpacked_bytes: amount("archive_unpacked_bytes", usual.unpacked_bytes)?,
        versions: amount("archive_versions", usual.versions)?,
        memory_bytes: amount("archive_memory_bytes", usual.memory_bytes)?,
        attempt_seconds: amount("archive_attempt_seconds", usual.attempt_seconds)?,
        jobs_at_once: number("archive_jobs", usual.jobs_at_once)?,
        imports_at_once: number("archive_imports", usual.imports_at_once)?,
        exports_per_day: number("archive_exports_a_day", usual.exports_per_day)?,
        keep_seconds: number("archive_keep_seconds", usual.keep_seconds)?,
    })
}

fn trusted(source: &Source) -> Result<Vec<PublicKey>, ConfigError> {
    let keys = source.get("trusted_archive_keys").unwrap_or_default();
    keys.split(',')
        .map(str::trim)
        .filter(|key| !key.is_empty())
        .map(|key| {
            PublicKey::from_base64(key).ok_or_else(|| {
                mistake(
                    "trusted_archive_keys",
                    format!("{key:?} is no public key"),
                    "write what `GET /v1/archive-keys` of the other deployment shows",
                )
            })
        })
        .collect()
}
