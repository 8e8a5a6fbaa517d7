-- Runs: audited operations on a part of a state, each with an http backend of its own. See docs/native-lane.md.

create table runs (
    workspace_id   text        not null,
    id             uuid        not null,
    state_id       uuid        not null,
    kind           text        not null check (kind in ('plan', 'apply', 'operation')),
    -- A run whose reservation was broken or expired by somebody else is still `running` here: what it is to its client
    -- follows from the reservation, whose row is locked before this one is looked at.
    status         text        not null default 'running'
                   check (status in ('running', 'planned', 'succeeded', 'failed', 'aborted')),
    -- Chosen by the client, so that a request whose answer was lost finds its run.
    idem_key       text        not null,
    command        text        not null,
    who            text        not null,
    principal_id   text        not null,
    -- What was asked for, and what it came to. JSON as text: names in it may hold what jsonb refuses.
    scope          text        not null,
    contract       text        not null,
    -- The version that the slice shows.
    base_seq       bigint      not null,
    -- The newest reservation; a plan has none.
    reservation_id uuid,
    -- The lock that a Terraform holds on the run's own backend, as it was sent.
    backend_lock   text,
    plan_sha256    bytea       check (octet_length(plan_sha256) = 32),
    -- When the apply of the saved plan began: a plan is applied once.
    spent_at       timestamptz,
    -- Addresses outside the claims that Terraform changed in its uploads: left out of the commits. JSON.
    left_out       text        not null default '[]',
    started_at     timestamptz not null default clock_timestamp(),
    finished_at    timestamptz,
    error          text,
    primary key (workspace_id, id),
    unique (workspace_id, state_id, principal_id, idem_key),
    foreign key (workspace_id, state_id) references states (workspace_id, id)
);
create index runs_by_state on runs (workspace_id, state_id, id);
create index runs_by_plan on runs (workspace_id, state_id, plan_sha256) where plan_sha256 is not null;

-- What a run last saw: its slice as it was rendered, then its own last upload. One row for each run.
create table run_documents (
    workspace_id text          not null,
    run_id       uuid          not null,
    serial       numeric(20)   not null,
    sha256       bytea         not null check (octet_length(sha256) = 32),
    -- zstd, then sealed with the workspace's data key.
    body         bytea         not null,
    byte_size    bigint        not null,
    primary key (workspace_id, run_id),
    foreign key (workspace_id, run_id) references runs (workspace_id, id)
);
alter table run_documents alter column body set storage external;

-- The outcome of each commit of a run, so that a repeated one has the same.
create table commit_receipts (
    workspace_id   text        not null,
    run_id         uuid        not null,
    commit_key     text        not null,
    request_digest bytea       not null check (octet_length(request_digest) = 32),
    seq            bigint      not null,
    serial         numeric(20) not null,
    primary key (workspace_id, run_id, commit_key),
    foreign key (workspace_id, run_id) references runs (workspace_id, id)
);

do $$
declare
    t text;
begin
    foreach t in array array['runs', 'run_documents', 'commit_receipts'] loop
        execute format('alter table %I enable row level security', t);
        execute format('alter table %I force row level security', t);
        execute format(
            'create policy workspace on %I
                 using (workspace_id = nullif(current_setting(''kl.workspace'', true), ''''))
                 with check (workspace_id = nullif(current_setting(''kl.workspace'', true), ''''))', t);
    end loop;
end
$$;

grant select, insert, update (
    kind, status, command, who, principal_id, contract, base_seq, reservation_id, backend_lock, plan_sha256, spent_at, left_out,
    finished_at, error
) on runs to kilolock_app;
grant select, insert, update (serial, sha256, body, byte_size) on run_documents to kilolock_app;
grant select, insert on commit_receipts to kilolock_app;
