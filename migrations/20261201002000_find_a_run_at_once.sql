-- What a run is told by before it waits for its turn, in one round trip as `head_of_state` has it: most runs reserve once, and
-- beginning and ending a transaction around one look-up costs more than the look-up.
create function run_of_state(in_workspace text, in_environment text, in_name text, in_run uuid)
returns table (
    state_id uuid,
    name text,
    head_seq bigint,
    seq_floor bigint,
    lifecycle text,
    created_at timestamptz,
    principal_id text,
    who text,
    command text,
    holds boolean
)
language plpgsql
set lock_timeout = '3s'
as $$
begin
    perform set_config('kl.workspace', in_workspace, true);
    return query
        select s.id, s.name, s.head_seq, s.seq_floor, s.lifecycle, s.created_at, r.principal_id, r.who, r.command,
               exists (
                   select
                   from reservations held
                   where held.workspace_id = in_workspace and held.state_id = s.id and held.id = r.reservation_id
                     and held.status = 'active'
               )
        from runs r
        cross join lateral (
            select *
            from states
            where states.workspace_id = in_workspace and states.id = r.state_id
            offset 0
        ) as s
        where r.workspace_id = in_workspace and r.id = in_run and s.environment_id = in_environment
          and s.folded_name = lower(in_name) and s.lifecycle <> 'deleted';
end
$$;
