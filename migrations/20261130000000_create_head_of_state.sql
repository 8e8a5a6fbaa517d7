-- The head of a state in one round trip: names the workspace, as every transaction must, and asks. Small reads are the
-- most frequent request by far, and beginning and ending a transaction around one lookup cost more than the lookup.
-- It runs with the rights of whoever calls it, so row security holds beneath it as everywhere.
create function head_of_state(in_workspace text, in_environment text, in_name text)
returns table (
    state_id uuid,
    name text,
    seq bigint,
    sha256 bytea
)
language plpgsql
-- As every transaction of the service: a lock that is not free soon is a 503, not a connection that hangs.
set lock_timeout = '3s'
as $$
begin
    -- Ends with the transaction, which is the statement that called.
    perform set_config('kl.workspace', in_workspace, true);
    return query
        select s.id, s.name, v.seq, v.sha256
        from states s
        join state_versions v
          on v.workspace_id = s.workspace_id and v.state_id = s.id and v.seq = s.head_seq
        where s.workspace_id = in_workspace and s.environment_id = in_environment
          and lower(s.name) = lower(in_name) and s.lifecycle <> 'deleted';
end
$$;
