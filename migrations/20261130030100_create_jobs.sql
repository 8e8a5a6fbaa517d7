-- Work that outlives a request: exports and imports. A job is made in the transaction of the request that asks for it,
-- claimed by one worker at a time under a lease, and ended in the transaction that makes its effect visible.

create table jobs (
    workspace_id   text        not null references workspaces (id),
    id             uuid        not null,
    kind           text        not null check (kind in ('export', 'import')),
    -- uploading: an import that waits for its archive.
    status         text        not null check (status in ('uploading', 'queued', 'running', 'done', 'failed', 'cancelled')),
    environment_id text        not null,
    -- The state that is exported, or the one being restored.
    state_id       uuid        not null,
    state_name     text        not null,
    -- Who asked, for the audit entries of what is done later.
    principal_id   text        not null,
    display        text        not null,
    token_id       text,
    request_id     text        not null,
    -- What was asked for.
    input          jsonb       not null,
    attempt        integer     not null default 0,
    -- Attempts that ended with an error of their own, and those whose worker was never heard of again.
    failures       integer     not null default 0,
    abandoned      integer     not null default 0,
    cancel_asked   boolean     not null default false,
    -- An object being written: its key and what the store needs to clean up after it.
    unfinished     jsonb,
    progress       jsonb       not null default '{}',
    result         jsonb,
    error_code     text,
    error_detail   text,
    created_at     timestamptz not null default clock_timestamp(),
    started_at     timestamptz,
    finished_at    timestamptz,
    -- When the objects of the job are deleted.
    expires_at     timestamptz,
    primary key (workspace_id, id),
    foreign key (workspace_id, environment_id) references environments (workspace_id, id),
    check ((status in ('done', 'failed', 'cancelled')) = (finished_at is not null)),
    check ((status = 'failed') = (error_code is not null))
);
create index jobs_by_environment on jobs (workspace_id, environment_id, id);

alter table jobs enable row level security;
alter table jobs force row level security;
create policy workspace on jobs
    using (workspace_id = nullif(current_setting('kl.workspace', true), ''))
    with check (workspace_id = nullif(current_setting('kl.workspace', true), ''));

-- What is to be done next, over all workspaces. Without row security, because a worker looks here before it knows whose job
-- it will do; so it holds ids and times and nothing that a tenant may see. A row lives as long as something is left to do.
create table job_queue (
    job_id        uuid        primary key,
    workspace_id  text        not null references workspaces (id),
    -- clean: delete the objects of a job that has ended, or give up an upload that never came.
    task          text        not null check (task in ('export', 'import', 'clean')),
    priority      smallint    not null default 0,
    queued_at     timestamptz not null default clock_timestamp(),
    not_before    timestamptz not null default clock_timestamp(),
    -- Drawn anew for each attempt: whoever does not have it any more can finish nothing.
    attempt_token uuid,
    lease_until   timestamptz,
    check ((attempt_token is null) = (lease_until is null))
);
create index job_queue_next on job_queue (not_before);
create index job_queue_by_workspace on job_queue (workspace_id);

-- When each workspace had its last turn, so that one with many jobs does not make the others wait.
create table job_turns (
    workspace_id text        primary key references workspaces (id),
    last_turn    timestamptz not null
);

grant select, insert, update (
    status, attempt, failures, abandoned, cancel_asked, unfinished, progress, result, error_code, error_detail,
    started_at, finished_at, expires_at, input
) on jobs to kilolock_app;
grant select, insert, delete, update (task, not_before, attempt_token, lease_until, priority) on job_queue to kilolock_app;
grant select, insert, update (last_turn) on job_turns to kilolock_app;

-- The archive worker logs in as a member of this role. Beyond what the service may, it removes what a failed import has
-- written; a trigger sees to it that nothing else can go.
do $$
begin
    if not exists (select from pg_roles where rolname = 'kilolock_worker') then
        create role kilolock_worker nologin;
    end if;
exception
    when duplicate_object or unique_violation then null;
end
$$;
do $$
begin
    grant kilolock_app to kilolock_worker;
exception
    -- Another database of the cluster is doing the same right now.
    when unique_violation or internal_error then null;
end
$$;

create function refuse_to_forget() returns trigger
language plpgsql
as $$
begin
    if tg_table_name = 'states' then
        if old.lifecycle <> 'importing' then
            raise exception 'history is append-only: state % is %', old.id, old.lifecycle;
        end if;
    elsif not exists (
        select from states
        where workspace_id = old.workspace_id and id = old.state_id and lifecycle = 'importing'
    ) then
        raise exception 'history is append-only: version % of state % stays', old.seq, old.state_id;
    end if;
    return old;
end
$$;
create trigger states_stay before delete on states for each row execute function refuse_to_forget();
create trigger versions_stay before delete on state_versions for each row execute function refuse_to_forget();

grant delete on states, state_versions, version_documents, outputs, header_parts, instances, lock_heads
    to kilolock_worker;
