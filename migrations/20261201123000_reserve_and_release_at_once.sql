-- Both are a whole transaction in one statement, as `run_of_state` is: between a lock and the commit behind it there is nobody to
-- wait for but the disk. They answer with no row, and have done nothing, wherever something is not as it mostly is.

-- Grants a run that holds nothing what it asks for. A run's row is locked before anything of the ledger.
create function reserve_at_once(
    in_workspace text,
    in_state uuid,
    in_id uuid,
    in_lane text,
    in_key text,
    in_lease_seconds bigint,
    in_info text,
    in_principal text,
    in_run uuid,
    in_paths text[],
    in_modes text[],
    in_hashes bigint[],
    in_bits smallint[],
    in_masks smallint[],
    in_entry jsonb
) returns setof reservations
language plpgsql
set lock_timeout = '3s'
set plan_cache_mode = 'force_generic_plan'
as $$
begin
    perform set_config('kl.workspace', in_workspace, true);
    perform
    from runs
    where workspace_id = in_workspace and id = in_run and state_id = in_state and principal_id = in_principal
      and status = 'running' and reservation_id is null
    for update;
    if not found then
        return;
    end if;
    return query
        select *
        from grant_if_free(
            in_workspace, in_state, null, in_id, in_lane, in_key, in_lease_seconds, in_info, in_principal, in_run, in_paths,
            in_modes, in_hashes, in_bits, in_masks, in_entry
        );
end
$$;

-- What a run holds that is to give it up, and of which state: its ledger is waited for before the statement that locks it.
create function held_by_run(in_workspace text, in_run uuid, in_principal text)
returns table (reservation_id uuid, state_id uuid)
language plpgsql
set lock_timeout = '3s'
as $$
begin
    perform set_config('kl.workspace', in_workspace, true);
    return query
        select r.reservation_id, r.state_id
        from runs r
        where r.workspace_id = in_workspace and r.id = in_run and r.principal_id = in_principal
          and r.reservation_id is not null;
end
$$;

-- Has a run give up this reservation, if it holds it. It may reserve anew.
create function release_at_once(in_workspace text, in_state uuid, in_run uuid, in_id uuid, in_reason text)
returns table (incarnation bigint, ended_gen bigint)
language plpgsql
set lock_timeout = '3s'
set plan_cache_mode = 'force_generic_plan'
as $$
#variable_conflict use_column
begin
    perform set_config('kl.workspace', in_workspace, true);
    perform
    from runs
    where workspace_id = in_workspace and id = in_run and state_id = in_state and reservation_id = in_id
    for update;
    if not found then
        return;
    end if;
    perform from lock_heads where workspace_id = in_workspace and state_id = in_state for update;
    -- Whoever ends it otherwise holds the ledger, too.
    perform from reservations where workspace_id = in_workspace and id = in_id and status = 'active';
    if not found then
        return;
    end if;
    update runs set reservation_id = null where workspace_id = in_workspace and id = in_run;
    delete from reservation_nodes where workspace_id = in_workspace and reservation_id = in_id;
    update lock_heads set gen = gen + 1 where workspace_id = in_workspace and state_id = in_state;
    return query
        update reservations
        set status = 'released', end_reason = in_reason, ended_gen = head.gen, ended_at = clock_timestamp()
        from lock_heads head
        where reservations.workspace_id = in_workspace and reservations.id = in_id and reservations.status = 'active'
          and head.workspace_id = in_workspace and head.state_id = in_state
        returning reservations.incarnation, reservations.ended_gen;
end
$$;
