-- The tenants and who may do what in them: workspaces, environments, principals, grants, tokens, and the audit log.
--
-- Two roles share the database. The owner runs migrations. The service logs in as a member of kilolock_app, which owns
-- nothing and is granted here, table by table and verb by verb, what it needs.
--
-- Every table that a tenant owns leads its key with workspace_id and has row security on, forced for its owner too.
-- The policy compares with a setting that lasts for one transaction; after it ends the setting is '' and not null,
-- hence the nullif: no workspace means no rows. workspaces, credentials and lock_service have no row security, because
-- they are read before the workspace is known; they hold nothing that a tenant may see.

DO $$
BEGIN
    -- Roles belong to the whole cluster, so another database may have made it already, or be making it right now.
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'kilolock_app') THEN
        CREATE ROLE kilolock_app NOLOGIN;
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL;
END
$$;

-- Postgres 15 grants this to nobody in new databases; one that was upgraded may still have it.
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO kilolock_app;
-- A replica compares the schema's version with the one it was built for.
GRANT SELECT ON _sqlx_migrations TO kilolock_app;

CREATE TABLE workspaces (
    id text PRIMARY KEY CHECK (id ~ '^ws_[0-9a-f]{12}$'),
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
    lifecycle text NOT NULL DEFAULT 'active' CHECK (lifecycle IN ('active', 'suspended')),
    -- The workspace's data key, wrapped by the deployment key. Null until something is encrypted.
    wrapped_key bytea,
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by text NOT NULL,
    -- The Idempotency-Key it was made with. It leads a repeated request to the workspace, and only there to the answer in
    -- idempotency_keys, which belongs to the workspace.
    creation_key text CHECK (length(creation_key) BETWEEN 1 AND 255)
);
CREATE UNIQUE INDEX workspaces_name_key ON workspaces (lower(name));
CREATE UNIQUE INDEX workspaces_creation_key ON workspaces (created_by, creation_key)
    WHERE creation_key IS NOT NULL;

CREATE TABLE environments (
    workspace_id text NOT NULL REFERENCES workspaces (id),
    id text NOT NULL CHECK (id ~ '^env_[0-9a-f]{12}$'),
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
    require_locks boolean NOT NULL DEFAULT false,
    terraform_lock_ttl_seconds integer CHECK (terraform_lock_ttl_seconds > 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, id)
);
CREATE UNIQUE INDEX environments_name_key ON environments (workspace_id, lower(name));

CREATE TABLE principals (
    workspace_id text NOT NULL REFERENCES workspaces (id),
    id text NOT NULL CHECK (id ~ '^pr_[0-9a-f]{12}$'),
    kind text NOT NULL CHECK (kind IN ('person', 'service')),
    display text NOT NULL CHECK (length(display) BETWEEN 1 AND 200),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, id)
);

CREATE TABLE grants (
    workspace_id text NOT NULL,
    principal_id text NOT NULL,
    -- Null: the workspace and all its environments.
    environment_id text,
    role text NOT NULL
        CHECK (role IN ('outputs', 'viewer', 'reader', 'writer', 'maintainer', 'admin', 'auditor')),
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT grants_principal FOREIGN KEY (workspace_id, principal_id)
        REFERENCES principals (workspace_id, id),
    CONSTRAINT grants_environment FOREIGN KEY (workspace_id, environment_id)
        REFERENCES environments (workspace_id, id),
    CONSTRAINT grants_key UNIQUE NULLS NOT DISTINCT (workspace_id, principal_id, environment_id, role)
);

-- Tokens, found by their public id before the workspace is known. Only a MAC of the secret is kept.
CREATE TABLE credentials (
    token_id text PRIMARY KEY CHECK (token_id ~ '^[0-9A-Za-z]{12}$'),
    -- Null: an operator of the deployment.
    workspace_id text REFERENCES workspaces (id),
    principal_id text NOT NULL CHECK (principal_id ~ '^pr_[0-9a-f]{12}$'),
    kind text NOT NULL CHECK (kind IN ('person', 'service', 'operator')),
    -- The name of an operator; members have theirs in principals.
    operator_display text CHECK (length(operator_display) BETWEEN 1 AND 200),
    mac bytea NOT NULL CHECK (length(mac) = 32),
    description text CHECK (length(description) <= 200),
    scope_role text
        CHECK (scope_role IN ('outputs', 'viewer', 'reader', 'writer', 'maintainer', 'admin', 'auditor')),
    scope_environment_id text,
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by text NOT NULL,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    -- Written in batches and never within a request.
    last_used_at timestamptz,
    last_used_network text,
    last_used_agent text,
    CONSTRAINT credentials_place CHECK (
        (kind = 'operator') = (workspace_id IS NULL)
        AND (kind = 'operator') = (operator_display IS NOT NULL)
    ),
    CONSTRAINT credentials_lifetime CHECK (expires_at <= created_at + interval '366 days')
);
CREATE INDEX credentials_workspace ON credentials (workspace_id, token_id);

-- What was changed or revealed, by whom. The service may add rows and read them, and nothing else.
CREATE TABLE audit_entries (
    workspace_id text NOT NULL REFERENCES workspaces (id),
    id uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    principal_id text NOT NULL,
    display text NOT NULL,
    token_id text,
    action text NOT NULL,
    target text NOT NULL,
    environment_id text,
    state_id uuid,
    request_id text NOT NULL,
    -- Settings, counts and digests; never a value of a state.
    before jsonb,
    after jsonb,
    result text NOT NULL CHECK (result IN ('done', 'refused')),
    -- Filled after commit by the one process that chains entries; a number drawn here would serialise the workspace.
    chain_no bigint,
    hash bytea,
    PRIMARY KEY (workspace_id, id)
);

-- Answers of requests that create something, so that a repeated request makes nothing twice.
CREATE TABLE idempotency_keys (
    workspace_id text NOT NULL REFERENCES workspaces (id),
    principal_id text NOT NULL,
    key text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    request_digest bytea NOT NULL CHECK (length(request_digest) = 32),
    -- Null only while the first request is still in its transaction. Never holds a secret.
    answer jsonb,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, principal_id, key)
);

-- One row: the heartbeat that says how long the service was away, so that nobody loses a lease for it.
CREATE TABLE lock_service (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    beat_no bigint NOT NULL DEFAULT 0,
    last_beat timestamptz NOT NULL DEFAULT '-infinity',
    grace_until timestamptz NOT NULL DEFAULT '-infinity',
    -- Grows when a database is restored from a backup.
    incarnation integer NOT NULL DEFAULT 1
);
INSERT INTO lock_service DEFAULT VALUES;

ALTER TABLE environments ENABLE ROW LEVEL SECURITY;
ALTER TABLE environments FORCE ROW LEVEL SECURITY;
CREATE POLICY workspace ON environments
    USING (workspace_id = nullif(current_setting('kl.workspace', true), ''))
    WITH CHECK (workspace_id = nullif(current_setting('kl.workspace', true), ''));

ALTER TABLE principals ENABLE ROW LEVEL SECURITY;
ALTER TABLE principals FORCE ROW LEVEL SECURITY;
CREATE POLICY workspace ON principals
    USING (workspace_id = nullif(current_setting('kl.workspace', true), ''))
    WITH CHECK (workspace_id = nullif(current_setting('kl.workspace', true), ''));

ALTER TABLE grants ENABLE ROW LEVEL SECURITY;
ALTER TABLE grants FORCE ROW LEVEL SECURITY;
CREATE POLICY workspace ON grants
    USING (workspace_id = nullif(current_setting('kl.workspace', true), ''))
    WITH CHECK (workspace_id = nullif(current_setting('kl.workspace', true), ''));

ALTER TABLE audit_entries ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_entries FORCE ROW LEVEL SECURITY;
CREATE POLICY workspace ON audit_entries
    USING (workspace_id = nullif(current_setting('kl.workspace', true), ''))
    WITH CHECK (workspace_id = nullif(current_setting('kl.workspace', true), ''));

ALTER TABLE idempotency_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotency_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY workspace ON idempotency_keys
    USING (workspace_id = nullif(current_setting('kl.workspace', true), ''))
    WITH CHECK (workspace_id = nullif(current_setting('kl.workspace', true), ''));

GRANT SELECT, INSERT, UPDATE (lifecycle, wrapped_key) ON workspaces TO kilolock_app;
GRANT SELECT, INSERT, UPDATE (require_locks, terraform_lock_ttl_seconds) ON environments TO kilolock_app;
GRANT SELECT, INSERT ON principals TO kilolock_app;
GRANT SELECT, INSERT, DELETE ON grants TO kilolock_app;
GRANT SELECT, INSERT, UPDATE (revoked_at, last_used_at, last_used_network, last_used_agent)
    ON credentials TO kilolock_app;
GRANT SELECT, INSERT ON audit_entries TO kilolock_app;
GRANT SELECT, INSERT, DELETE, UPDATE (request_digest, answer, expires_at) ON idempotency_keys
    TO kilolock_app;
GRANT SELECT, UPDATE (beat_no, last_beat, grace_until, incarnation) ON lock_service TO kilolock_app;
