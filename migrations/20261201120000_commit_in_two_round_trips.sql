-- The places at which version `in_to` of a state is not what version `in_from` is, but for those of its first version, which
-- stand in no index.
create function places_touched(in_workspace text, in_state uuid, in_from bigint, in_to bigint)
returns table (place text, is_output boolean)
language sql stable
as $$
    select address, false
    from instances
    where workspace_id = in_workspace and state_id = in_state
      and born_seq > 1 and born_seq > in_from and born_seq <= in_to and (dies_seq is null or dies_seq > in_to)
    union all
    select address, false
    from instances
    where workspace_id = in_workspace and state_id = in_state
      and dies_seq > in_from and dies_seq <= in_to and born_seq <= in_from
    union all
    select name, true
    from outputs
    where workspace_id = in_workspace and state_id = in_state and born_seq > in_from and born_seq <= in_to
    union all
    select name, true
    from outputs
    where workspace_id = in_workspace and state_id = in_state and dies_seq > in_from and dies_seq <= in_to
$$;

-- Locks a state and answers with what a commit on the base `in_base` is judged by: the state, its head, and the places that
-- were touched since the base; without these where the base has no version.
--
-- One round trip, because all who commit to the state wait meanwhile. Each statement here sees what was committed before it
-- began, so what follows the lock sees all that was committed during the wait for it.
create function lock_to_commit(in_workspace text, in_state uuid, in_base bigint)
returns table (state states, head state_versions, addresses text[], outputs text[])
language plpgsql
as $$
begin
    select * into state
    from states
    where workspace_id = in_workspace and id = in_state
    for no key update;
    if not found then
        return;
    end if;
    select * into head
    from state_versions
    where workspace_id = in_workspace and state_id = in_state and seq = state.head_seq;
    if in_base > 0 and in_base < state.head_seq then
        select array_agg(place) filter (where not is_output), array_agg(place) filter (where is_output)
        into addresses, outputs
        from places_touched(in_workspace, in_state, in_base, state.head_seq);
    end if;
    return next;
end
$$;
