-- no-transaction
-- See `find_versions_by_seq`.
create index concurrently reservations_of_key on reservations (idem_key);
