-- An export reads what each version changed: the rows that began and those that ended in it. Without these it would read the
-- whole state once for every version.
create index instances_by_birth on instances (workspace_id, state_id, born_seq);
create index instances_by_death on instances (workspace_id, state_id, dies_seq) where dies_seq is not null;
create index outputs_by_birth on outputs (workspace_id, state_id, born_seq);
create index outputs_by_death on outputs (workspace_id, state_id, dies_seq) where dies_seq is not null;
