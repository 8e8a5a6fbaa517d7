-- no-transaction
-- See `find_versions_by_seq`.
create index concurrently nodes_of_reservation on reservation_nodes (reservation_id);
