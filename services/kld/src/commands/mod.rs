//! The subcommands of `kld`, beside `serve`.

pub mod admin;
pub mod audit;
pub mod serve;
