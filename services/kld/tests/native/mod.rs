//! The native lane as its clients meet it: scopes, slices, and what is done with them.

mod documents;
mod graph;
mod operations;
mod protocol;
mod scope;
mod snapshots;
mod state_engine;
