-- A token that reaches nothing but one run. It sleeps while the run's plan lies in a file, and wakes for whoever applies it.
alter table credentials add column run_id uuid;
alter table credentials drop constraint credentials_kind_check;
alter table credentials add constraint credentials_kind_check
    check (kind in ('person', 'service', 'operator', 'run'));
alter table credentials add constraint credentials_run check ((kind = 'run') = (run_id is not null));
create index credentials_of_run on credentials (workspace_id, run_id) where run_id is not null;

grant update (principal_id, scope_role, scope_environment_id, expires_at) on credentials to kilolock_app;
