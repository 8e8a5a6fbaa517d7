//! The configuration: one struct, filled in one place, checked before the first socket opens.
//!
//! Each key is an environment variable (`KL_LISTEN`) or an entry of the file given with `--config` (`listen`); the
//! environment wins. Secrets may also come from a file of their own (`KL_DATABASE_URL_FILE`). The doc comments of
//! [`Config`] are the reference.

mod blobs;
mod worker;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use auth::Pepper;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coordination::Link;
use secrecy::{ExposeSecret as _, SecretBox, SecretString};
use telemetry::LogFormat;

pub use blobs::ArchiveConfig;
pub use worker::WorkerConfig;

/// The keys there are, in the file's spelling. Anything else in a file is a mistake.
const KEYS: [&str; 41] = [
    "database_url",
    "database_url_file",
    "migrate_database_url",
    "migrate_database_url_file",
    "database_pool",
    "redis_url",
    "redis_url_file",
    "redis_cache_url",
    "redis_cache_url_file",
    "listen",
    "metrics_listen",
    "token_pepper",
    "token_pepper_file",
    "deployment_key",
    "deployment_key_file",
    "max_state_bytes",
    "upload_memory_bytes",
    "public_url",
    "log",
    "log_format",
    "drain_seconds",
    "blobs",
    "s3_endpoint",
    "s3_region",
    "s3_access_key",
    "s3_secret_key",
    "s3_secret_key_file",
    "s3_encryption",
    "trusted_archive_keys",
    "archive_bytes",
    "archive_unpacked_bytes",
    "archive_versions",
    "archive_memory_bytes",
    "archive_attempt_seconds",
    "archive_jobs",
    "archive_imports",
    "archive_exports_a_day",
    "archive_keep_seconds",
    "worker_jobs",
    "job_lease_seconds",
    "job_abandonments",
];

/// The configuration of `kld serve`.
#[derive(Debug)]
pub struct Config {
    /// `KL_DATABASE_URL`: where the database is, with the service's own role in it, a member of `kilolock_app`.
    pub database_url: SecretString,
    /// `KL_DATABASE_POOL`: the largest number of database connections of this replica. 16.
    pub database_pool: u32,
    /// `KL_REDIS_URL`: Redis, for the index of reservations and the queue of those who wait: `redis://host:6379`,
    /// `redis+sentinel://host:26379,host:26379/primary` or `redis+cluster://host:6379,host:6379`. Its eviction policy must be
    /// `noeviction`. Without it waiters poll, in no order.
    pub redis: Option<Link>,
    /// `KL_REDIS_CACHE_URL`: another Redis for snapshots of dependency graphs, which it may evict: `allkeys-lru`. The one of
    /// `KL_REDIS_URL`; there each state takes up to 16 MiB for an hour. Without either, each replica builds what it needs.
    pub redis_cache: Option<Link>,
    /// `KL_LISTEN`: address and port of the API. `127.0.0.1:8080`.
    pub listen: SocketAddr,
    /// `KL_METRICS_LISTEN`: address and port of `/metrics`, which never goes through the balancer. `127.0.0.1:9090`.
    pub metrics_listen: SocketAddr,
    /// `KL_TOKEN_PEPPER`: base64 of at least 32 random bytes. Every stored token depends on it: change it and all of
    /// them stop working.
    pub token_pepper: Pepper,
    /// `KL_DEPLOYMENT_KEY`: base64 of 32 random bytes. Wraps the data key of each workspace: lose it and what is
    /// encrypted is lost.
    pub deployment_key: SecretBox<[u8; 32]>,
    /// `KL_MAX_STATE_BYTES`: the largest state document, in bytes. 512 MiB.
    pub max_state_bytes: u64,
    /// `KL_UPLOAD_MEMORY_BYTES`: how much of documents being written a replica holds in memory at once; further large ones
    /// wait, then are answered 503. 2 GiB.
    pub upload_memory_bytes: u64,
    /// `KL_PUBLIC_URL`: how clients reach the service, for addresses in answers. Empty: answers hold paths only.
    pub public_url: Option<String>,
    /// `KL_LOG`: what is logged: a level, or a list of `target=level`. `info`.
    pub log: String,
    /// `KL_LOG_FORMAT`: `json`, or `text` for reading. `json`.
    pub log_format: LogFormat,
    /// Where archives are kept and whose are trusted.
    pub archives: ArchiveConfig,
    /// `KL_DRAIN_SECONDS`: how long requests may take to finish after SIGTERM before they are cut off. 30.
    pub drain: Duration,
}

/// A key that is missing or holds something it cannot.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {problem}; {fix}")]
pub struct ConfigError {
    key: String,
    problem: String,
    fix: &'static str,
}

/// Gives the value of an environment variable.
pub type Environment = Box<dyn Fn(&str) -> Option<String>>;

/// Where values come from: the environment first, then the file.
pub struct Source {
    environment: Environment,
    file: BTreeMap<String, String>,
}

impl Source {
    /// The process's environment, and a file if one is named.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is not TOML, or holds a key that does not exist.
    pub fn of_process(file: Option<&Path>) -> Result<Self, ConfigError> {
        Self::new(Box::new(|key| std::env::var(key).ok()), file)
    }

    /// Another environment than the process's, and a file if one is named.
    ///
    /// # Errors
    ///
    /// As [`Self::of_process`].
    pub fn new(environment: Environment, file: Option<&Path>) -> Result<Self, ConfigError> {
        let file = file.map(read_file).transpose()?.unwrap_or_default();
        Ok(Self { environment, file })
    }

    /// The value of a key. An empty one counts as absent.
    fn get(&self, key: &str) -> Option<String> {
        let value = (self.environment)(&variable(key)).or_else(|| self.file.get(key).cloned());
        value.filter(|value| !value.is_empty())
    }

    fn parse<T>(&self, key: &str, default: T, fix: &'static str) -> Result<T, ConfigError>
    where
        T: FromStr<Err: fmt::Display>,
    {
        match self.get(key) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|error| mistake(key, format!("{text:?} is not usable: {error}"), fix)),
        }
    }

    /// A secret: the key itself, or the contents of the file that `<key>_file` names.
    fn find_secret(&self, key: &str) -> Result<Option<SecretString>, ConfigError> {
        if let Some(value) = self.get(key) {
            return Ok(Some(value.into()));
        }
        let file_key = format!("{key}_file");
        let Some(path) = self.get(&file_key).map(PathBuf::from) else {
            return Ok(None);
        };
        let value = std::fs::read_to_string(&path).map_err(|error| {
            mistake(
                &file_key,
                format!("{} cannot be read: {error}", path.display()),
                "name a file that the service may read",
            )
        })?;
        Ok(Some(value.trim_end_matches(['\r', '\n']).into()))
    }

    fn get_secret(&self, key: &str, fix: &'static str) -> Result<SecretString, ConfigError> {
        self.find_secret(key)?
            .ok_or_else(|| mistake(key, "is not set", fix))
    }

    fn get_bytes(&self, key: &str, fix: &'static str) -> Result<Vec<u8>, ConfigError> {
        let text = self.get_secret(key, fix)?;
        STANDARD
            .decode(text.expose_secret().trim())
            .map_err(|_| mistake(key, "is not base64", fix))
    }
}

const DATABASE_FIX: &str =
    "set it, or KL_DATABASE_URL_FILE, to postgres://kld:password@host/kilolock";
const PEPPER_FIX: &str =
    "set it, or KL_TOKEN_PEPPER_FILE, to the output of `openssl rand -base64 32`";
const KEY_FIX: &str =
    "set it, or KL_DEPLOYMENT_KEY_FILE, to the output of `openssl rand -base64 32`";

impl Config {
    /// Reads the configuration.
    ///
    /// # Errors
    ///
    /// The first key that is missing or wrong, with what to do about it.
    pub fn load(source: &Source) -> Result<Self, ConfigError> {
        let listen_fix = "write an address and a port, such as 0.0.0.0:8080";
        let log: String = source.parse("log", "info".to_owned(), "write a level, such as info")?;
        let drain = source.parse("drain_seconds", 30, "write a whole number of seconds")?;
        // In the order in which a person sets them: the first that is missing is named.
        let database_url = source.get_secret("database_url", DATABASE_FIX)?;
        let token_pepper = pepper(source)?;
        let deployment_key = deployment_key(source)?;
        let archives = ArchiveConfig::load(source, &deployment_key)?;
        Ok(Self {
            archives,
            database_url,
            database_pool: source.parse("database_pool", 16, "write a whole number, such as 16")?,
            redis: redis(source)?,
            redis_cache: redis_cache(source)?,
            listen: source.parse("listen", ([127, 0, 0, 1], 8080).into(), listen_fix)?,
            metrics_listen: source.parse(
                "metrics_listen",
                ([127, 0, 0, 1], 9090).into(),
                listen_fix,
            )?,
            token_pepper,
            deployment_key,
            max_state_bytes: source.parse(
                "max_state_bytes",
                512 * 1024 * 1024,
                "write a whole number of bytes",
            )?,
            upload_memory_bytes: source.parse(
                "upload_memory_bytes",
                2 * 1024 * 1024 * 1024,
                "write a whole number of bytes",
            )?,
            public_url: source.get("public_url"),
            log,
            log_format: log_format(source)?,
            drain: Duration::from_secs(drain),
        })
    }
}

fn redis(source: &Source) -> Result<Option<Link>, ConfigError> {
    let Some(url) = source.find_secret("redis_url")? else {
        return Ok(None);
    };
    let link = Link::new(url.expose_secret())
        .map_err(|error| mistake("redis_url", error.to_string(), "write redis://host:6379"))?;
    Ok(Some(link))
}

fn redis_cache(source: &Source) -> Result<Option<Link>, ConfigError> {
    let (key, url) = match source.find_secret("redis_cache_url")? {
        Some(url) => ("redis_cache_url", url),
        None => match source.find_secret("redis_url")? {
            Some(url) => ("redis_url", url),
            None => return Ok(None),
        },
    };
    let link = Link::for_large_values(url.expose_secret())
        .map_err(|error| mistake(key, error.to_string(), "write redis://host:6379"))?;
    Ok(Some(link))
}

/// The pepper alone, for commands that only make tokens.
///
/// # Errors
///
/// When it is missing or too short.
pub fn pepper(source: &Source) -> Result<Pepper, ConfigError> {
    let bytes = source.get_bytes("token_pepper", PEPPER_FIX)?;
    Pepper::new(bytes).map_err(|error| mistake("token_pepper", error.to_string(), PEPPER_FIX))
}

/// Where the service's own role logs in, for commands that need nothing else.
///
/// # Errors
///
/// When it is missing.
pub fn database_url(source: &Source) -> Result<SecretString, ConfigError> {
    source.get_secret("database_url", DATABASE_FIX)
}

/// Where the owner of the tables logs in: `KL_MIGRATE_DATABASE_URL`, or else the service's own URL.
///
/// # Errors
///
/// When neither is set.
pub fn migrate_database_url(source: &Source) -> Result<SecretString, ConfigError> {
    match source.find_secret("migrate_database_url")? {
        Some(url) => Ok(url),
        None => database_url(source),
    }
}

fn deployment_key(source: &Source) -> Result<SecretBox<[u8; 32]>, ConfigError> {
    let bytes = source.get_bytes("deployment_key", KEY_FIX)?;
    let key: Box<[u8; 32]> = bytes
        .into_boxed_slice()
        .try_into()
        .map_err(|bytes: Box<[u8]>| {
            mistake(
                "deployment_key",
                format!("has {} bytes and not 32", bytes.len()),
                KEY_FIX,
            )
        })?;
    Ok(SecretBox::new(key))
}

fn log_format(source: &Source) -> Result<LogFormat, ConfigError> {
    match source.get("log_format").as_deref() {
        None | Some("json") => Ok(LogFormat::Json),
        Some("text") => Ok(LogFormat::Text),
        Some(other) => Err(mistake(
            "log_format",
            format!("{other:?} is not usable"),
            "write json or text",
        )),
    }
}

fn read_file(path: &Path) -> Result<BTreeMap<String, String>, ConfigError> {
    let in_file = |problem: String, fix| ConfigError {
        key: path.display().to_string(),
        problem,
        fix,
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| in_file(format!("cannot be read: {error}"), "name a readable file"))?;
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| in_file(error.message().to_owned(), "write TOML"))?;
    let mut values = BTreeMap::new();
    for (key, value) in table {
        if !KEYS.contains(&key.as_str()) {
            return Err(in_file(
                format!("`{key}` is not a key"),
                "see the configuration reference",
            ));
        }
        let value = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            _ => {
                let problem = format!("`{key}` is neither a text nor a whole number");
                return Err(in_file(problem, "see the configuration reference"));
            }
        };
        values.insert(key, value);
    }
    Ok(values)
}

fn variable(key: &str) -> String {
    format!("KL_{}", key.to_uppercase())
}

fn mistake(key: &str, problem: impl Into<String>, fix: &'static str) -> ConfigError {
    ConfigError {
        key: variable(key),
        problem: problem.into(),
        fix,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3I=";

    fn load(values: &[(&str, &str)], file: Option<&Path>) -> Result<Config, ConfigError> {
        let values: BTreeMap<String, String> = values
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let source = Source::new(Box::new(move |key| values.get(key).cloned()), file)?;
        Config::load(&source)
    }

    const LEAST: [(&str, &str); 3] = [
        ("KL_DATABASE_URL", "postgres://kld:hunter2@db/kilolock"),
        ("KL_TOKEN_PEPPER", SECRET),
        ("KL_DEPLOYMENT_KEY", SECRET),
    ];

    #[test]
    fn the_least_configuration_has_the_documented_defaults() {
        let config = load(&LEAST, None).unwrap();
        assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
        assert_eq!(config.metrics_listen.to_string(), "127.0.0.1:9090");
        assert_eq!(
            (config.database_pool, config.max_state_bytes),
            (16, 536_870_912)
        );
    }

    #[test]
    fn an_error_names_the_key_and_the_fix() {
        let error = |index: usize, value: &'static str| {
            let mut values = LEAST;
            values[index].1 = value;
            load(&values, None).unwrap_err().to_string()
        };
        assert!(
            error(0, "")
                .starts_with("KL_DATABASE_URL: is not set; set it, or KL_DATABASE_URL_FILE")
        );
        assert!(error(1, "short").starts_with("KL_TOKEN_PEPPER: is not base64"));
        assert!(
            error(1, "c2hvcnQ=").starts_with("KL_TOKEN_PEPPER: a token pepper has at least 32")
        );
        assert!(error(2, "c2hvcnQ=").starts_with("KL_DEPLOYMENT_KEY: has 5 bytes and not 32"));
        let listen = load(&[LEAST.as_slice(), &[("KL_LISTEN", "here")]].concat(), None);
        assert!(
            listen
                .unwrap_err()
                .to_string()
                .contains("such as 0.0.0.0:8080")
        );
    }

    #[test]
    fn secrets_come_from_files_too_and_are_never_printed() {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("pepper");
        std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
        let values = [
            LEAST[0],
            LEAST[2],
            ("KL_TOKEN_PEPPER_FILE", secret.to_str().unwrap()),
        ];
        let printed = format!("{:?}", load(&values, None).unwrap());
        assert!(
            !printed.contains("hunter2") && !printed.contains("c2Vj"),
            "{printed}"
        );
    }

    #[test]
    fn the_environment_wins_over_the_file_and_unknown_keys_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kld.toml");
        std::fs::write(&file, "listen = \"0.0.0.0:1\"\ndatabase_pool = 3\n").unwrap();
        let values = [LEAST.as_slice(), &[("KL_LISTEN", "0.0.0.0:2")]].concat();
        let config = load(&values, Some(&file)).unwrap();
        assert_eq!((config.listen.port(), config.database_pool), (2, 3));

        std::fs::write(&file, "listne = \"0.0.0.0:1\"\n").unwrap();
        let error = load(&LEAST, Some(&file)).unwrap_err().to_string();
        assert!(error.contains("`listne` is not a key"), "{error}");
    }
}
