-- A database restored from a backup has forgotten versions that clients may remember. The next version of each state
-- leaps over all numbers that may have been given away.

alter table states add column seq_floor bigint not null default 0 check (seq_floor >= 0);
grant update (seq_floor) on states to kilolock_app;
