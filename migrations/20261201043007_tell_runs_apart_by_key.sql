-- no-transaction
-- See `find_versions_by_seq`: the same as the constraint has, but made after `runs_of_state`.
create unique index concurrently runs_of_key on runs (workspace_id, state_id, principal_id, idem_key);
