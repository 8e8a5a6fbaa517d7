-- no-transaction
-- See `find_versions_by_seq`.
create index concurrently states_of_environment on states (environment_id, id);
