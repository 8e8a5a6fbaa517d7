-- no-transaction
-- See `find_versions_by_seq`.
drop index concurrently runs_by_plan;
