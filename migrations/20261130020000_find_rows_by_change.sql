-- The native lane works on parts of a state. A graph of one version is brought to the next by the rows that were born and
-- that died in between, so both must be found without reading the others.
create index instances_by_birth on instances (workspace_id, state_id, born_seq);
create index instances_by_death on instances (workspace_id, state_id, dies_seq) where dies_seq is not null;

-- Which file of the configuration a resource was last written from. A block that has gone from a file is found to be
-- removed by this; a state itself does not know files.
create table address_sources (
    workspace_id   text   not null,
    state_id       uuid   not null,
    config_address text   not null collate "C",
    -- Relative to the root module.
    file           text   not null collate "C",
    -- The version that was written then.
    seq            bigint not null,
    primary key (workspace_id, state_id, config_address),
    foreign key (workspace_id, state_id) references states (workspace_id, id)
);
create index address_sources_by_file on address_sources (workspace_id, state_id, file);

alter table address_sources enable row level security;
alter table address_sources force row level security;
create policy workspace on address_sources
    using (workspace_id = nullif(current_setting('kl.workspace', true), ''))
    with check (workspace_id = nullif(current_setting('kl.workspace', true), ''));

grant select, insert, update (file, seq) on address_sources to kilolock_app;
