-- no-transaction
-- See `find_versions_by_seq`.
create index concurrently reservations_by_id on reservations (id);
