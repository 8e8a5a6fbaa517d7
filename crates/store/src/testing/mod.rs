//! Databases for tests: one migrated template, cloned for each test, dropped afterwards.
//!
//! Tests run on a real server, as a superuser of it, named by `KL_TEST_DATABASE_URL`; `cargo xtask test` starts one. The
//! template is named by the migrations' hash, so it is made once and again when they change. Nothing of the code under
//! test is replaced.

mod wire;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use secrecy::{ExposeSecret, SecretString};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection, PgPool};

pub use wire::Wire;

use crate::{Db, DbOptions, schema};

/// The role that kld logs in with in tests. It belongs to the server, so every test shares it.
const APP_ROLE: &str = "kl_test_app";
/// The role that archive workers log in with in tests.
const WORKER_ROLE: &str = "kl_test_worker";

/// A database of one test. Dropped with the value, whatever becomes of the test.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    server: PgConnectOptions,
    owner: PgPool,
}

impl TestDatabase {
    /// Clones the template.
    ///
    /// # Panics
    ///
    /// When the server is not there or not usable. A test cannot go on, and says why.
    pub async fn create() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let server = server_options();
        let template = ensure_template(&server).await;
        let name = format!(
            "kl_test_{}_{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let mut connection = connect(&server).await;
        // A process of the same id may have been killed before it could clean up.
        run(
            &mut connection,
            format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
        )
        .await;
        run(
            &mut connection,
            format!("CREATE DATABASE {name} TEMPLATE {template}"),
        )
        .await;
        let owner = PgPoolOptions::new()
            .max_connections(4)
            .connect_lazy_with(server.clone().database(&name));
        Self {
            name,
            server,
            owner,
        }
    }

    /// A pool of the superuser, which sees every row: for setting up and looking behind.
    #[must_use]
    pub const fn owner(&self) -> &PgPool {
        &self.owner
    }

    /// The URL of the superuser in this database.
    #[must_use]
    pub fn owner_url(&self) -> SecretString {
        self.server
            .clone()
            .database(&self.name)
            .to_url_lossy()
            .to_string()
            .into()
    }

    /// The URL of the role that the service uses.
    #[must_use]
    pub fn app_url(&self) -> SecretString {
        let options = self
            .server
            .clone()
            .database(&self.name)
            .username(APP_ROLE)
            .password(APP_ROLE);
        options.to_url_lossy().to_string().into()
    }

    /// The URL of the role that archive workers use.
    #[must_use]
    pub fn worker_url(&self) -> SecretString {
        let options = self
            .server
            .clone()
            .database(&self.name)
            .username(WORKER_ROLE)
            .password(WORKER_ROLE);
        options.to_url_lossy().to_string().into()
    }

    /// The URL of the service's role, reached through a [`Wire`].
    #[must_use]
    pub fn app_url_through(&self, address: SocketAddr) -> SecretString {
        let options = self
            .server
            .clone()
            .database(&self.name)
            .username(APP_ROLE)
            .password(APP_ROLE);
        let options = options.host(&address.ip().to_string()).port(address.port());
        options.to_url_lossy().to_string().into()
    }

    /// The database as the service sees it.
    ///
    /// # Panics
    ///
    /// Never: the URL is our own.
    #[must_use]
    pub fn db(&self) -> Db {
        Db::connect(&DbOptions::new(self.app_url())).expect("the URL was made here")
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // On a thread of its own, because a runtime cannot be blocked on from within itself.
        let dropper = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let mut connection = server.connect().await?;
                let statement = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
                connection.execute(AssertSqlSafe(statement)).await?;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
            })
        });
        // A database left behind is not worth failing a test for; the next server starts empty.
        let _ = dropper.join();
    }
}

fn server_options() -> PgConnectOptions {
    let url = std::env::var("KL_TEST_DATABASE_URL").expect(
        "KL_TEST_DATABASE_URL is not set: run the tests with `cargo xtask test`, which starts a database for them",
    );
    url.parse::<PgConnectOptions>()
        .expect("KL_TEST_DATABASE_URL is a postgres:// URL of a superuser")
        .disable_statement_logging()
}

async fn connect(options: &PgConnectOptions) -> PgConnection {
    options
        .connect()
        .await
        .expect("the server of KL_TEST_DATABASE_URL can be reached")
}

async fn run(connection: &mut PgConnection, statement: String) {
    if let Err(error) = connection.execute(AssertSqlSafe(statement.clone())).await {
        panic!("{statement}: {error}");
    }
}

/// Makes the template and the service's role unless they exist. Test processes take turns.
async fn ensure_template(server: &PgConnectOptions) -> String {
    let mut name = String::from("kl_template_");
    for migration in schema::MIGRATOR.iter() {
        for byte in &migration.checksum[..2] {
            write!(name, "{byte:02x}").expect("writing to a string");
        }
    }
    // Names have at most 63 bytes; the newest migrations tell templates apart best.
    let name = format!(
        "{}{}",
        &name[..12],
        &name[name.len().saturating_sub(40).max(12)..]
    );

    let mut connection = connect(server).await;
    run(
        &mut connection,
        "SELECT pg_advisory_lock(7205931105)".to_owned(),
    )
    .await;
    let ready: bool = sqlx::query_scalar::<_, bool>(
        "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)",
    )
    .bind(&name)
    .fetch_one(&mut connection)
    .await
    .expect("pg_database can be read");
    if !ready {
        run(
            &mut connection,
            format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
        )
        .await;
        run(&mut connection, format!("CREATE DATABASE {name}")).await;
        let url = server
            .clone()
            .database(&name)
            .to_url_lossy()
            .to_string()
            .into();
        schema::migrate(&url)
            .await
            .expect("the migrations run on an empty database");
        for (role, group) in [(APP_ROLE, "kilolock_app"), (WORKER_ROLE, "kilolock_worker")] {
            run(
                &mut connection,
                format!(
                    "DO $$ BEGIN CREATE ROLE {role} LOGIN PASSWORD '{role}' IN ROLE {group}; \
                     EXCEPTION WHEN duplicate_object THEN NULL; END $$"
                ),
            )
            .await;
        }
        // Marked last: a template without the mark is half made.
        run(
            &mut connection,
            format!("ALTER DATABASE {name} IS_TEMPLATE true"),
        )
        .await;
    }
    connection
        .close()
        .await
        .expect("the connection closes, and its lock with it");
    name
}

/// Reads the secret of a URL in a test.
#[must_use]
pub fn expose(url: &SecretString) -> &str {
    url.expose_secret()
}
