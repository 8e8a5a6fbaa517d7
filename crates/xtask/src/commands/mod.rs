//! One module per command: its arguments and what it does.

pub(crate) mod bench;
pub(crate) mod chaos;
pub(crate) mod databases;
pub(crate) mod demo;
pub(crate) mod generate;
pub(crate) mod lane;
pub(crate) mod lint;
pub(crate) mod mixed_mode;
pub(crate) mod restore_drill;
pub(crate) mod s3_server;
pub(crate) mod sqlx;
pub(crate) mod stack;
pub(crate) mod test;
