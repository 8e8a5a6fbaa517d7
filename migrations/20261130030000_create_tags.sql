-- Names for versions. A tagged version is never pruned, and travels in archives as a key frame.

create table version_tags (
    workspace_id text        not null,
    state_id     uuid        not null,
    tag          text        not null collate "C" check (tag ~ '^[A-Za-z][A-Za-z0-9._-]{0,127}$'),
    seq          bigint      not null,
    description  text        check (length(description) between 1 and 1000),
    -- The author's name at the time. It is text: in an archive it comes from another deployment.
    created_by   text        not null,
    created_at   timestamptz not null default clock_timestamp(),
    primary key (workspace_id, state_id, tag),
    foreign key (workspace_id, state_id, seq) references state_versions (workspace_id, state_id, seq)
);
create index version_tags_by_version on version_tags (workspace_id, state_id, seq);

alter table version_tags enable row level security;
alter table version_tags force row level security;
create policy workspace on version_tags
    using (workspace_id = nullif(current_setting('kl.workspace', true), ''))
    with check (workspace_id = nullif(current_setting('kl.workspace', true), ''));

grant select, insert, delete, update (seq, description, created_by, created_at) on version_tags to kilolock_app;
