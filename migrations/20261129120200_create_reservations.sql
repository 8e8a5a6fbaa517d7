-- The ledger: who holds what of a state. A Terraform lock is a reservation of the whole state; so is
-- an administrative lock. See docs/architecture.md, "Locks".

create table lock_heads (
    workspace_id text   not null,
    state_id     uuid   not null,
    -- Grows with every grant; drawn under this row's lock, because a sequence may issue a value twice
    -- after a crash and does not follow commit order.
    token        bigint not null default 0,
    -- Grows with every grant and every end.
    gen          bigint not null default 0,
    primary key (workspace_id, state_id),
    foreign key (workspace_id, state_id) references states (workspace_id, id)
);

create table reservations (
    workspace_id   text        not null,
    id             uuid        not null,
    state_id       uuid        not null,
    run_id         uuid,
    lane           text        not null check (lane in ('terraform', 'native', 'admin')),
    -- The lock ID of Terraform, or the key a native client repeats.
    idem_key       text        not null,
    token          bigint      not null,
    incarnation    bigint      not null,
    status         text        not null default 'active'
                   check (status in ('active', 'released', 'expired', 'broken', 'restored')),
    lease_seconds  bigint      check (lease_seconds > 0),
    -- Null: no lease. Terraform never renews, so its lock has none unless the environment sets one.
    expires_at     timestamptz,
    base_seq       bigint      not null,
    granted_gen    bigint      not null,
    ended_gen      bigint,
    end_reason     text,
    -- Terraform's LockInfo.
    info           text        not null,
    principal_id   text        not null,
    created_at     timestamptz not null default clock_timestamp(),
    last_active_at timestamptz not null default clock_timestamp(),
    ended_at       timestamptz,
    primary key (workspace_id, id),
    unique (workspace_id, state_id, incarnation, token),
    unique (workspace_id, state_id, idem_key),
    foreign key (workspace_id, state_id) references states (workspace_id, id),
    check ((status = 'active') = (ended_gen is null)),
    check ((lease_seconds is null) = (expires_at is null))
);
create index reservations_active on reservations (workspace_id, state_id) where status = 'active';
create index reservations_by_key on reservations (workspace_id, idem_key);

create table claims (
    workspace_id   text   not null,
    reservation_id uuid   not null,
    -- Segments of an address; empty: the whole state.
    path           text[] not null,
    mode           text   not null check (mode in ('read', 'write')),
    primary key (workspace_id, reservation_id, path),
    foreign key (workspace_id, reservation_id) references reservations (workspace_id, id)
);

-- Bodies of writes that came too late: stored before they are refused.
create table kept_results (
    workspace_id   text        not null,
    id             uuid        not null,
    state_id       uuid        not null,
    reservation_id uuid        not null,
    base_seq       bigint      not null,
    digest         bytea       not null check (octet_length(digest) = 32),
    -- zstd, then sealed with the workspace's data key.
    body           bytea       not null,
    byte_size      bigint      not null,
    kept_at        timestamptz not null default clock_timestamp(),
    kept_by        text        not null,
    settled_at     timestamptz,
    primary key (workspace_id, id),
    unique (workspace_id, reservation_id, digest),
    foreign key (workspace_id, state_id) references states (workspace_id, id),
    foreign key (workspace_id, reservation_id) references reservations (workspace_id, id)
);
alter table kept_results alter column body set storage external;

do $$
declare
    t text;
begin
    foreach t in array array['lock_heads', 'reservations', 'claims', 'kept_results'] loop
        execute format('alter table %I enable row level security', t);
        execute format('alter table %I force row level security', t);
        execute format(
            'create policy workspace on %I
                 using (workspace_id = nullif(current_setting(''kl.workspace'', true), ''''))
                 with check (workspace_id = nullif(current_setting(''kl.workspace'', true), ''''))', t);
    end loop;
end
$$;

grant select, insert, update (token, gen) on lock_heads to kilolock_app;
grant select, insert, update (status, expires_at, base_seq, ended_gen, end_reason, last_active_at, ended_at)
    on reservations to kilolock_app;
grant select, insert on claims to kilolock_app;
grant select, insert, update (settled_at) on kept_results to kilolock_app;
