-- no-transaction
-- See `find_versions_by_seq`.
create index concurrently reservations_held on reservations (state_id) where status = 'active';
