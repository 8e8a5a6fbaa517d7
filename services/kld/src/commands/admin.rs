//! `kld admin …`: what an operator does on the server's own machine, without a running service.
//!
//! Tokens go to standard output and nothing else does, so that they can be piped to where they belong.

use anyhow::{Context as _, bail};
use auth::{Pepper, Token, TokenKind};
use protocol::tenancy::{Grant, MemberKind, TokenScope};
use protocol::{PrincipalId, Role, StateName, WorkspaceId};
use serde_json::json;
use store::tenancy::audit::{self, Actor, NewEntry};
use store::tenancy::credentials::{self, NewToken};
use store::tenancy::{members, workspaces};
use store::{Db, DbOptions, Restored};

use crate::config::{self, Source};
use crate::routes::tenancy::issue_token;

/// Who the audit log names for what is done by these commands.
const ACTOR: &str = "kld admin";
/// How long an operator's token lives.
const OPERATOR_LIFETIME_DAYS: u16 = 90;
/// How many workspaces are listed at a time.
const WORKSPACES_AT_ONCE: u32 = 100;

/// What the commands need.
pub struct Admin {
    db: Db,
    pepper: Pepper,
}

/// A workspace made by [`Admin::create_workspace`].
#[derive(Debug)]
pub struct NewWorkspace {
    /// The workspace.
    pub id: WorkspaceId,
    /// The first admin.
    pub admin: PrincipalId,
    /// The admin's token.
    pub token: String,
}

impl Admin {
    /// Connects with the service's own role.
    ///
    /// # Errors
    ///
    /// When the configuration is incomplete or the schema too old.
    pub async fn connect(source: &Source) -> anyhow::Result<Self> {
        let pepper = config::pepper(source)?;
        let db = Db::connect(&DbOptions::new(config::database_url(source)?))?;
        db.check_schema().await?;
        Ok(Self { db, pepper })
    }

    /// The commands on a database and with a pepper of the caller's.
    #[must_use]
    pub const fn new(db: Db, pepper: Pepper) -> Self {
        Self { db, pepper }
    }

    /// Makes the first operator and returns its token.
    ///
    /// # Errors
    ///
    /// When there is an operator already whose token still works.
    pub async fn bootstrap(&self) -> anyhow::Result<String> {
        let secret = Token::generate(TokenKind::Operator, &mut rand::rng());
        let principal = PrincipalId::from_bytes(rand::random());
        let mac = self.pepper.mac(&secret);
        let new = operator_token(&secret, &principal, &mac);
        let made = credentials::create_first_operator(&self.db, &new, "operator").await?;
        if made.is_none() {
            bail!(
                "there is an operator already; make another token with `kld admin token create-operator`"
            );
        }
        Ok(secret.expose().to_owned())
    }

    /// Makes a further operator and returns its token.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn create_operator(&self, display: &str) -> anyhow::Result<String> {
        let secret = Token::generate(TokenKind::Operator, &mut rand::rng());
        let principal = PrincipalId::from_bytes(rand::random());
        let mac = self.pepper.mac(&secret);
        let new = operator_token(&secret, &principal, &mac);
        credentials::create_operator_token(&self.db, &new, display).await?;
        Ok(secret.expose().to_owned())
    }

    /// Finishes the restore of the database from a backup, and says what was done. Doing it once more does no harm.
    ///
    /// # Errors
    ///
    /// Those of the database. Done in part, it is to be done again.
    pub async fn finish_restore(&self) -> anyhow::Result<String> {
        let mut done = Restored::default();
        let mut after: Option<WorkspaceId> = None;
        loop {
            let last = after.as_ref().map(WorkspaceId::as_str);
            let page = workspaces::list_workspaces(&self.db, last, WORKSPACES_AT_ONCE).await?;
            for workspace in &page {
                let restored = self.restore_workspace(&workspace.id).await?;
                done.states += restored.states;
                done.reservations += restored.reservations;
            }
            match page.into_iter().last() {
                Some(workspace) => after = Some(workspace.id),
                None => break,
            }
        }
        // Last of all: with it the replicas write again.
        let incarnation = store::begin_incarnation(&self.db).await?;
        Ok(format!(
            "{} states leapt ahead, {} reservations ended; the database lives its life {incarnation}",
            done.states, done.reservations
        ))
    }

    async fn restore_workspace(&self, workspace: &WorkspaceId) -> anyhow::Result<Restored> {
        let mut tx = self.db.begin(workspace).await?;
        let restored = store::restore_workspace(&mut tx).await?;
        let entry = NewEntry {
            action: "service.restore",
            target: workspace.as_str(),
            after: Some(
                json!({ "states": restored.states, "reservations": restored.reservations }),
            ),
            ..NewEntry::default()
        };
        let nobody = PrincipalId::from_bytes([0; 6]);
        audit::record(&mut tx, actor(&nobody), entry).await?;
        tx.commit().await?;
        Ok(restored)
    }

    /// Makes a workspace with its first admin.
    ///
    /// # Errors
    ///
    /// When the name is ill-formed or taken.
    pub async fn create_workspace(&self, name: &str, admin: &str) -> anyhow::Result<NewWorkspace> {
        let name: StateName = name.parse().context("the workspace's name")?;
        let mut tx = self.db.begin(&workspaces::new_workspace_id()).await?;
        let workspace = workspaces::create_workspace(&mut tx, &name, ACTOR, None).await?;
        let grants = vec![Grant {
            role: Role::Admin,
            environment: None,
        }];
        let admin = members::create_member(&mut tx, MemberKind::Person, admin, grants).await?;
        let scope = TokenScope::default();
        let token = issue_token(&mut tx, &self.pepper, &admin, None, &scope, ACTOR, 90).await?;
        let entry = NewEntry {
            action: "workspace.create",
            target: workspace.id.as_str(),
            after: Some(json!({ "name": name, "admin": admin.principal })),
            ..NewEntry::default()
        };
        audit::record(&mut tx, actor(&admin.principal), entry).await?;
        tx.commit().await?;
        let token = token.secret.context("a new token has a secret")?;
        Ok(NewWorkspace {
            id: workspace.id,
            admin: admin.principal,
            token,
        })
    }

    /// Makes a token of a member, for an admin who has lost all of theirs.
    ///
    /// # Errors
    ///
    /// When there is no such member.
    pub async fn create_token(
        &self,
        workspace: &WorkspaceId,
        principal: &PrincipalId,
        lifetime_days: u16,
    ) -> anyhow::Result<String> {
        if !(1..=365).contains(&lifetime_days) {
            bail!("a token lives between 1 and 365 days");
        }
        let mut tx = self.db.begin(workspace).await?;
        let member = members::find_member(&mut tx, principal)
            .await?
            .with_context(|| format!("{workspace} has no member {principal}"))?;
        let scope = TokenScope::default();
        let token = issue_token(
            &mut tx,
            &self.pepper,
            &member,
            None,
            &scope,
            ACTOR,
            lifetime_days,
        )
        .await?;
        let entry = NewEntry {
            action: "token.create",
            target: &token.token.token_id,
            after: Some(json!({ "principal": principal })),
            ..NewEntry::default()
        };
        audit::record(&mut tx, actor(principal), entry).await?;
        tx.commit().await?;
        token.secret.context("a new token has a secret")
    }
}

/// The audit log wants a principal. Commands have none, so it names the one they are about, and says who acted.
fn actor(principal: &PrincipalId) -> Actor<'_> {
    Actor {
        principal,
        display: ACTOR,
        token_id: None,
        request_id: ACTOR,
    }
}

fn operator_token<'a>(
    secret: &'a Token,
    principal: &'a PrincipalId,
    mac: &'a auth::TokenMac,
) -> NewToken<'a> {
    const NO_SCOPE: &TokenScope = &TokenScope {
        role: None,
        environment: None,
    };
    NewToken {
        id: secret.id(),
        kind: TokenKind::Operator,
        principal,
        mac,
        description: None,
        scope: NO_SCOPE,
        created_by: ACTOR,
        lifetime_days: OPERATOR_LIFETIME_DAYS,
    }
}
