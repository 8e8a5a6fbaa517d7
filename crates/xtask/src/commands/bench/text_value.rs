//! The other way to keep a state in Postgres: Terraform's own `pg` backend, which writes the whole document as one value.
//!
//! Its table and statements are those of the backend (internal/backend/remote-state/pg), with the column's default
//! compression, on the same server.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, PgConnection, Row as _};

use crate::stack::Stack;

const DATABASE: &str = "terraform_pg";

/// A connection as the backend keeps one.
#[derive(Debug)]
pub(super) struct TextValues(PgConnection);

impl TextValues {
    pub(super) async fn create(stack: &Stack) -> Result<Self> {
        let postgres = &stack.databases.postgres;
        let create = format!("create database {DATABASE}");
        postgres.sql("postgres", &create).await?;
        postgres
            .sql(
                DATABASE,
                "create schema terraform_remote_state;
                 create sequence public.global_states_id_seq as bigint;
                 create table terraform_remote_state.states (
                     id bigint not null default nextval('public.global_states_id_seq') primary key,
                     name text unique,
                     data text
                 );
                 create unique index states_by_name on terraform_remote_state.states (name)",
            )
            .await?;
        let options: PgConnectOptions = postgres.superuser_url(DATABASE).parse()?;
        let connection = options.disable_statement_logging().connect().await;
        Ok(Self(connection.context("cannot reach the text values")?))
    }

    /// Writes the document; answers how long that took.
    pub(super) async fn write(&mut self, name: &str, document: &[u8]) -> Result<Duration> {
        let text = std::str::from_utf8(document)?;
        let began = Instant::now();
        sqlx::query(
            "INSERT INTO terraform_remote_state.states (name, data) VALUES ($1, $2)
             ON CONFLICT (name) DO UPDATE SET data = $2",
        )
        .bind(name)
        .bind(text)
        .execute(&mut self.0)
        .await?;
        Ok(began.elapsed())
    }

    /// Reads the document; answers how long that took, and its length.
    pub(super) async fn read(&mut self, name: &str) -> Result<(Duration, usize)> {
        let began = Instant::now();
        let row = sqlx::query("SELECT data FROM terraform_remote_state.states WHERE name = $1")
            .bind(name)
            .fetch_one(&mut self.0)
            .await?;
        let size = row.try_get::<&str, _>(0)?.len();
        Ok((began.elapsed(), size))
    }
}
