-- A write under a lock is compared with what was written under the same lock before: a delayed duplicate must not undo the
-- write after it.
create index state_versions_by_reservation
    on state_versions (workspace_id, state_id, reservation_id) where reservation_id is not null;
