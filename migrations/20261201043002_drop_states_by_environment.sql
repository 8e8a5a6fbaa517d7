-- no-transaction
-- See `find_versions_by_seq`.
drop index concurrently states_by_environment;
