-- An export reads what each version changed. Without these it would read all outputs of a state once for every version.
create index outputs_by_birth on outputs (workspace_id, state_id, born_seq);
create index outputs_by_death on outputs (workspace_id, state_id, dies_seq) where dies_seq is not null;
