-- Writes an entry of the audit log from one value, for those who write more than that in the same statement.
create function record_entry(in_workspace text, in_entry jsonb) returns void
language plpgsql
as $$
begin
    insert into audit_entries (
        workspace_id, id, principal_id, display, token_id, action, target, environment_id, state_id, request_id, before,
        after, result
    )
    select in_workspace, e.id, e.principal_id, e.display, e.token_id, e.action, e.target, e.environment_id, e.state_id,
           e.request_id, e.before, e.after, e.result
    from jsonb_to_record(in_entry) as e (
        id uuid, principal_id text, display text, token_id text, action text, target text, environment_id text,
        state_id uuid, request_id text, before jsonb, after jsonb, result text
    );
end
$$;

-- Locks the ledger of a state and grants claims, if nobody excludes them and the state is active, at version `in_head` where
-- that is given. The run, where it is recorded already, has the reservation then. No row: something is in the way, and the
-- ledger is locked all the same.
--
-- One round trip, because everybody who wants something of the state waits meanwhile. Each statement here sees what was
-- committed before it began, so what follows the lock sees all that was granted during the wait for it.
create function grant_if_free(
    in_workspace text,
    in_state uuid,
    in_head bigint,
    in_id uuid,
    in_lane text,
    in_key text,
    in_lease_seconds bigint,
    in_info text,
    in_principal text,
    in_run uuid,
    -- Claims: paths with their segments joined by line feed, and modes.
    in_paths text[],
    in_modes text[],
    -- What they compile to: hashes of nodes, the mode of each as a bit, and the bits of all modes that exclude it.
    in_hashes bigint[],
    in_bits smallint[],
    in_masks smallint[],
    in_entry jsonb
) returns setof reservations
language plpgsql
as $$
declare
    head lock_heads;
    base bigint;
    granted reservations;
begin
    perform from lock_heads where workspace_id = in_workspace and state_id = in_state for update;
    if exists (
        select
        from unnest(in_hashes, in_masks) as asked (hash, mask)
        cross join lateral (
            select
            from reservation_nodes
            where workspace_id = in_workspace and state_id = in_state and node_hash = asked.hash
              and mode & asked.mask <> 0
            offset 0
        ) as excluding
    ) or exists (
        select
        from reservations
        where workspace_id = in_workspace and state_id = in_state and status = 'active' and lane <> 'native'
    ) then
        return;
    end if;
    -- Its row is not locked: a commit that is under way is of somebody whose claims do not touch these, or it would be in the
    -- way, and whatever else changes a state asks the ledger. So the head may move meanwhile, and what is claimed does not.
    select head_seq into base
    from states
    where workspace_id = in_workspace and id = in_state and lifecycle = 'active'
      and head_seq = coalesce(in_head, head_seq);
    if not found then
        return;
    end if;
    update lock_heads
    set token = token + 1, gen = gen + 1
    where workspace_id = in_workspace and state_id = in_state
    returning * into head;
    insert into reservations (
        workspace_id, id, state_id, lane, idem_key, token, incarnation, lease_seconds, expires_at, base_seq, granted_gen,
        info, principal_id, run_id
    )
    select in_workspace, in_id, in_state, in_lane, in_key, head.token, service.incarnation, in_lease_seconds,
           clock_timestamp() + make_interval(secs => in_lease_seconds::double precision), base, head.gen, in_info,
           in_principal, in_run
    from lock_service service
    returning * into granted;
    insert into claims (workspace_id, reservation_id, path, mode)
    select in_workspace, in_id, string_to_array(claim.path, E'\n'), claim.mode
    from unnest(in_paths, in_modes) as claim (path, mode);
    insert into reservation_nodes (workspace_id, state_id, node_hash, mode, reservation_id)
    select in_workspace, in_state, node.hash, node.bit, in_id
    from unnest(in_hashes, in_bits) as node (hash, bit);
    update runs
    set reservation_id = in_id, base_seq = base
    where workspace_id = in_workspace and id = in_run;
    perform record_entry(in_workspace, in_entry);
    return next granted;
end
$$;
