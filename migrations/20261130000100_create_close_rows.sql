-- Closing rows looks each of them up by its place. As `ord = ANY (…)` the planner is free to read all live rows of the
-- state and filter, and does so whenever its statistics say that states are small: one changed instance of 100,000 then
-- costs a walk over 100,000. An equality is always looked up. Both run with the rights of whoever calls them.

-- Answers how many rows were live and are closed now.
create function close_instances(
    in_workspace text, in_state uuid, in_seq bigint, in_places bytea[]
) returns bigint
language plpgsql
as $$
declare
    place bytea;
    touched bigint;
    closed bigint := 0;
begin
    foreach place in array in_places loop
        update instances
        set dies_seq = in_seq
        where workspace_id = in_workspace and state_id = in_state and ord = place and dies_seq is null;
        get diagnostics touched = row_count;
        closed := closed + touched;
    end loop;
    return closed;
end
$$;

create function close_outputs(
    in_workspace text, in_state uuid, in_seq bigint, in_names text[]
) returns bigint
language plpgsql
as $$
declare
    gone text;
    touched bigint;
    closed bigint := 0;
begin
    foreach gone in array in_names loop
        update outputs
        set dies_seq = in_seq
        where workspace_id = in_workspace and state_id = in_state and name = gone and dies_seq is null;
        get diagnostics touched = row_count;
        closed := closed + touched;
    end loop;
    return closed;
end
$$;
