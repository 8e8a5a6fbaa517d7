-- no-transaction
-- See `find_versions_by_seq`.
create index concurrently runs_of_state on runs (state_id, id);
