-- Where its statistics know little of a state, the planner takes any index that begins with workspace and state for as good as
-- any other. An index on births is then walked from end to end to find one place. This one holds only what later versions
-- brought, and serves only those who ask for that: no lookup by place can use it.
drop index instances_by_birth;
create index instances_by_birth on instances (workspace_id, state_id, born_seq) where born_seq > 1;
