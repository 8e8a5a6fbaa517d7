-- no-transaction
-- See `find_versions_by_seq`.
create index concurrently runs_by_id on runs (id);
