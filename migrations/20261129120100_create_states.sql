-- A state is rows with a life span: an instance lives from born_seq until dies_seq (null: alive at
-- the head), so a version costs what it changed and every older version stays readable by one
-- predicate. See docs/architecture.md, "A write, end to end".

create table states (
    workspace_id   text        not null,
    id             uuid        not null,
    environment_id text        not null,
    name           text        not null,
    head_seq       bigint      not null default 0,
    lifecycle      text        not null default 'active'
                   check (lifecycle in ('active', 'importing', 'archived', 'deleted')),
    created_at     timestamptz not null default clock_timestamp(),
    deleted_at     timestamptz,
    primary key (workspace_id, id),
    foreign key (workspace_id, environment_id) references environments (workspace_id, id),
    check ((lifecycle = 'deleted') = (deleted_at is not null))
);

-- A deleted state keeps its id until it is purged, and frees its name at once.
create unique index states_live_name
    on states (workspace_id, environment_id, lower(name)) where lifecycle <> 'deleted';
create index states_by_environment on states (workspace_id, environment_id, id);

create table state_versions (
    workspace_id      text        not null,
    state_id          uuid        not null,
    seq               bigint      not null check (seq > 0),
    id                uuid        not null,
    -- Terraform's own fields: null where a document does not show them (client-side encryption).
    serial            numeric(20),
    lineage           text,
    terraform_version text,
    source            text        not null check (source in ('terraform', 'import', 'rollback', 'native')),
    created_at        timestamptz not null default clock_timestamp(),
    created_by        text        not null,
    principal_id      text        not null,
    run_id            uuid,
    reservation_id    uuid,
    token             bigint,
    incarnation       bigint      not null,
    forced            boolean     not null,
    unlocked          boolean     not null,
    -- rows: rendered from rows. kept: rows, and the posted bytes beside them because rendering does
    -- not reproduce them. opaque: only the posted bytes (encrypted, older or unknown formats).
    form              text        not null check (form in ('rows', 'kept', 'opaque')),
    opaque_reason     text,
    header            bytea,
    rows_digest       bytea       not null check (octet_length(rows_digest) = 32),
    sha256            bytea       check (octet_length(sha256) = 32),
    byte_size         bigint,
    instance_count    bigint      not null,
    rows_changed      bigint      not null,
    provenance        jsonb,
    primary key (workspace_id, state_id, seq),
    foreign key (workspace_id, state_id) references states (workspace_id, id),
    check ((form = 'opaque') = (header is null)),
    check ((form = 'opaque') = (opaque_reason is not null))
);

create unique index state_versions_by_id on state_versions (workspace_id, id);

-- Whole documents, out of the hot row: posted bytes that rendering does not reproduce.
create table version_documents (
    workspace_id text   not null,
    state_id     uuid   not null,
    seq          bigint not null,
    -- zstd, then sealed with the workspace's data key.
    body         bytea  not null,
    primary key (workspace_id, state_id, seq),
    foreign key (workspace_id, state_id, seq) references state_versions (workspace_id, state_id, seq)
);
alter table version_documents alter column body set storage external;

create table outputs (
    workspace_id text   not null,
    state_id     uuid   not null,
    name         text   not null collate "C",
    born_seq     bigint not null,
    dies_seq     bigint,
    name_token   bytea  not null,
    body         bytea  not null,
    body_digest  bytea  not null,
    primary key (workspace_id, state_id, name, born_seq),
    foreign key (workspace_id, state_id) references states (workspace_id, id),
    check (dies_seq > born_seq)
);

-- check_results and other large header members, stored once per content and named by the header.
create table header_parts (
    workspace_id text  not null,
    state_id     uuid  not null,
    digest       bytea not null,
    body         bytea not null,
    primary key (workspace_id, state_id, digest),
    foreign key (workspace_id, state_id) references states (workspace_id, id)
);

create table instances (
    workspace_id   text   not null,
    state_id       uuid   not null,
    -- Memcomparable: the index order is Terraform's document order.
    ord            bytea  not null,
    born_seq       bigint not null,
    dies_seq       bigint,
    kind           text   not null check (kind in ('current', 'deposed', 'shell')),
    address        text   not null collate "C",
    config_address text   not null collate "C",
    module         text   not null,
    mode           text   not null check (mode in ('managed', 'data')),
    type           text   not null,
    name           text   not null,
    -- The raw JSON token: a key may hold what text cannot (an escaped NUL, a lone surrogate).
    index_key      text,
    deposed        text,
    provider       text,
    block          bytea  not null,
    -- The bytes as Terraform renders them at their depth, so a posted span hashes as it stands.
    body           bytea  not null,
    body_digest    bytea  not null,
    dependencies   text[] not null,
    primary key (workspace_id, state_id, ord, born_seq),
    foreign key (workspace_id, state_id) references states (workspace_id, id),
    check (dies_seq > born_seq)
);
create unique index instances_live on instances (workspace_id, state_id, ord) where dies_seq is null;

-- Bodies stay in the row, so that a whole read follows one index; lz4 where the server has it,
-- because pglz would cost more than the write itself.
alter table instances alter column body set storage main;
do $$
begin
    alter table instances alter column body set compression lz4;
    alter table outputs alter column body set compression lz4;
    alter table header_parts alter column body set compression lz4;
exception when feature_not_supported then
    raise notice 'this server has no lz4: bodies are compressed with pglz';
end
$$;

do $$
declare
    t text;
begin
    foreach t in array array['states', 'state_versions', 'version_documents', 'outputs',
                             'header_parts', 'instances'] loop
        execute format('alter table %I enable row level security', t);
        execute format('alter table %I force row level security', t);
        execute format(
            'create policy workspace on %I
                 using (workspace_id = nullif(current_setting(''kl.workspace'', true), ''''))
                 with check (workspace_id = nullif(current_setting(''kl.workspace'', true), ''''))', t);
    end loop;
end
$$;

grant select, insert, update (name, head_seq, lifecycle, deleted_at) on states to kilolock_app;
-- History is append-only: a version is inserted, and its digest filled in once.
grant select, insert, update (sha256, byte_size) on state_versions to kilolock_app;
grant select, insert on version_documents, header_parts to kilolock_app;
grant select, insert, update (dies_seq) on outputs, instances to kilolock_app;
