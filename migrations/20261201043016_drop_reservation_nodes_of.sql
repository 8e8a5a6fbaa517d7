-- no-transaction
-- See `find_versions_by_seq`.
drop index concurrently reservation_nodes_of;
