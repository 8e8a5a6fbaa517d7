-- The constraint of the same name on the index that was made last. There is nothing to be looked through, so it is done at once,
-- or not at all while somebody works with the table for long.
set local lock_timeout = '5s';
alter table runs
    drop constraint runs_workspace_id_state_id_principal_id_idem_key_key,
    add constraint runs_workspace_id_state_id_principal_id_idem_key_key unique using index runs_of_key;
