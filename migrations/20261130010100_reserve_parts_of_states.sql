-- Reservations of parts of a state. See docs/native-lane.md.

-- The compiled claims of active native reservations: one row for each claimed path and each of its ancestors, so that a
-- conflict is found by one indexed join. Locks of the whole state have none: they exclude everything by their lane.
create table reservation_nodes (
    workspace_id   text     not null,
    state_id       uuid     not null,
    node_hash      bigint   not null,
    -- A bit for each mode, to be held against the mask of modes that exclude the one asked for.
    mode           smallint not null check (mode in (1, 2, 4, 8, 16)),
    reservation_id uuid     not null,
    primary key (workspace_id, state_id, node_hash, reservation_id),
    foreign key (workspace_id, reservation_id) references reservations (workspace_id, id)
);
create index reservation_nodes_of on reservation_nodes (workspace_id, reservation_id);

-- Paths whose record may differ from the real infrastructure, because who wrote there did not release it.
create table unsettled (
    workspace_id   text        not null,
    state_id       uuid        not null,
    reservation_id uuid        not null,
    path           text[]      not null,
    reason         text        not null,
    since          timestamptz not null default clock_timestamp(),
    cleared_at     timestamptz,
    cleared_by     text,
    primary key (workspace_id, state_id, reservation_id, path),
    foreign key (workspace_id, reservation_id) references reservations (workspace_id, id),
    check ((cleared_at is null) = (cleared_by is null))
);
create index unsettled_open on unsettled (workspace_id, state_id) where cleared_at is null;

do $$
declare
    t text;
begin
    foreach t in array array['reservation_nodes', 'unsettled'] loop
        execute format('alter table %I enable row level security', t);
        execute format('alter table %I force row level security', t);
        execute format(
            'create policy workspace on %I
                 using (workspace_id = nullif(current_setting(''kl.workspace'', true), ''''))
                 with check (workspace_id = nullif(current_setting(''kl.workspace'', true), ''''))', t);
    end loop;
end
$$;

-- When the holder began to change real infrastructure. What ends without a release before that leaves nothing behind.
alter table reservations add column began_at timestamptz;
-- For uploads to a run's own backend: the lock there. The newest upload of a lock holds those before it.
alter table kept_results add column lock_id text;
create unique index kept_results_by_lock on kept_results (workspace_id, reservation_id, lock_id)
    where lock_id is not null and settled_at is null;
create index kept_results_of_state on kept_results (workspace_id, state_id, id);

grant select, insert, delete on reservation_nodes to kilolock_app;
-- A run that extends its reservation has its claims replaced by a set that grants more.
grant delete on claims to kilolock_app;
grant select, insert, update (reason, since, cleared_at, cleared_by) on unsettled to kilolock_app;
grant update (began_at) on reservations to kilolock_app;
grant update (base_seq, digest, body, byte_size, kept_at, kept_by) on kept_results to kilolock_app;
