-- A run shows the versions it wrote; a state may have tens of thousands of others.
create index state_versions_by_run on state_versions (workspace_id, run_id, seq) where run_id is not null;
