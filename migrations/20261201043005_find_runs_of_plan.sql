-- no-transaction
-- See `find_versions_by_seq`.
create index concurrently runs_of_plan on runs (plan_sha256) where plan_sha256 is not null;
