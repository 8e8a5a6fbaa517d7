-- What a run was asked for, so that the same key with another request is refused instead of answered with the first run;
-- and whether the plan that it sleeps over looked at the real objects, so that older marks do not make that plan stale.

alter table runs
    -- Over what the request says beside its key and its place in the queue; null for a run of before.
    add column request_digest bytea check (octet_length(request_digest) = 32),
    -- Of its last plan; null while there is none.
    add column refreshed boolean;

grant update (refreshed) on runs to kilolock_app;
