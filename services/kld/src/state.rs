//! What every handler can reach.

use std::sync::Arc;

use coordination::{Index, Shelf};
use engine::Engine;
use engine::archive::Archives;
use secrecy::ExposeSecret as _;
use store::Db;
use tokio_util::sync::CancellationToken;

use crate::access::{RunPlaces, TokenUses, Verdicts};
use crate::config::Config;
use crate::uploads::Uploads;

/// Shared by all requests of a replica. Cloned for each, so everything in it is a handle.
#[derive(Clone)]
pub struct AppState {
    /// The database.
    pub db: Db,
    /// The use cases.
    pub engine: Engine,
    /// The configuration.
    pub config: Arc<Config>,
    /// Tokens resolved lately.
    pub verdicts: Verdicts,
    /// Where the runs are that were asked about lately.
    pub run_places: RunPlaces,
    /// Tokens used lately, until they are written down.
    pub token_uses: TokenUses,
    /// Room for large uploads.
    pub uploads: Uploads,
    /// Archives, where the deployment keeps any.
    pub archives: Option<Archives>,
    /// Whether the replica wants requests.
    pub readiness: Readiness,
}

impl AppState {
    /// The state of a replica with this configuration.
    #[must_use]
    pub fn new(config: Config, db: Db) -> Self {
        let verdicts = Verdicts::new(db.clone());
        let engine = Engine::new(
            db.clone(),
            config.deployment_key.expose_secret(),
            config.redis.clone().map(Index::new),
            config.redis_cache.clone().map(Shelf::new),
        );
        let archives = config
            .archives
            .archives(&engine, config.deployment_key.expose_secret());
        Self {
            engine,
            archives,
            run_places: RunPlaces::new(db.clone()),
            db,
            uploads: Uploads::new(config.upload_memory_bytes),
            config: Arc::new(config),
            verdicts,
            token_uses: TokenUses::default(),
            readiness: Readiness::default(),
        }
    }
}

/// Whether the replica wants requests. It does until it drains.
#[derive(Clone, Default)]
pub struct Readiness(CancellationToken);

impl Readiness {
    /// From now on `/readyz` says no.
    pub fn begin_draining(&self) {
        self.0.cancel();
    }

    /// Whether the replica is going away.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Returns when the replica goes away.
    pub async fn drains(&self) {
        self.0.cancelled().await;
    }
}
