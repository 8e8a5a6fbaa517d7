-- no-transaction
-- See `find_versions_by_seq`.
drop index concurrently reservations_by_key;
