-- Indexes that only serve to find rows lead with what tells these rows apart, and not with the workspace, which unique ones
-- have to (one workspace must not learn of another by a key that is taken).
--
-- Where nobody has counted the rows yet, the planner takes the rows of a workspace for as few as those of one id, and then
-- looks for the id among all rows of the workspace, by any index that begins with it; and that plan is kept until somebody
-- counts. An index that begins with something else serves only whoever names that. Of several that look equally good the
-- planner takes the one that was made last, so what is asked for most comes last, some of it beside a unique index on the same.
-- `store/tests/lookups.rs` counts the rows that are read by plans which were made when there was one row.

create index state_versions_by_seq on state_versions (state_id, seq);

drop index states_by_environment;
create index states_by_environment on states (environment_id, id);

drop index runs_by_state;
drop index runs_by_plan;
create index runs_by_state on runs (state_id, id);
create index runs_by_plan on runs (plan_sha256) where plan_sha256 is not null;
-- The same again, but behind `runs_by_state`.
alter table runs
    drop constraint runs_workspace_id_state_id_principal_id_idem_key_key,
    add constraint runs_workspace_id_state_id_principal_id_idem_key_key
        unique (workspace_id, state_id, principal_id, idem_key);
create index runs_by_id on runs (id);

drop index reservations_by_key;
drop index reservations_active;
create index reservations_by_key on reservations (idem_key);
create index reservations_active on reservations (state_id) where status = 'active';
create index reservations_by_id on reservations (id);

drop index reservation_nodes_of;
create index reservation_nodes_of on reservation_nodes (reservation_id);
