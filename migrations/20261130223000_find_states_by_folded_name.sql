-- Names of states are the same whatever the case of their letters. Under row security an index on `lower(name)` serves no
-- look-up: the database does not know that `lower` tells nothing of other rows, and compares after the policy, row by row. A
-- column of its own is compared as it is.
alter table states add column folded_name text generated always as (lower(name)) stored;

drop index states_live_name;
create unique index states_live_name
    on states (workspace_id, environment_id, folded_name) where lifecycle <> 'deleted';

-- The version is looked up on its own: joined as a set, all versions of the workspace are read where nobody has counted them.
create or replace function head_of_state(in_workspace text, in_environment text, in_name text)
returns table (
    state_id uuid,
    name text,
    seq bigint,
    sha256 bytea
)
language plpgsql
set lock_timeout = '3s'
as $$
begin
    perform set_config('kl.workspace', in_workspace, true);
    return query
        select s.id, s.name, v.seq, v.sha256
        from states s
        cross join lateral (
            select version.seq, version.sha256
            from state_versions version
            where version.workspace_id = in_workspace and version.state_id = s.id and version.seq = s.head_seq
            offset 0
        ) as v
        where s.workspace_id = in_workspace and s.environment_id = in_environment
          and s.folded_name = lower(in_name) and s.lifecycle <> 'deleted';
end
$$;
