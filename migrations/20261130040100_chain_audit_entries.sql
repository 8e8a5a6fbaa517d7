-- Entries are numbered and hashed after they are committed, in an order of their own: a number drawn in the transaction
-- of the act would have every act of a workspace wait for the one before. What an entry says stays out of reach.

create unique index audit_entries_chain on audit_entries (workspace_id, chain_no) where chain_no is not null;
create index audit_entries_unchained on audit_entries (workspace_id, id) where chain_no is null;
alter table audit_entries add constraint audit_entries_chain_whole check ((chain_no is null) = (hash is null));

grant update (chain_no, hash) on audit_entries to kilolock_app;
