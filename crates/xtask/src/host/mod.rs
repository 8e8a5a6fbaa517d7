//! The machine that xtask runs on: its programs, processes, ports and signals. Nothing about Kilolock.

pub(crate) mod foreground;
pub(crate) mod install;
pub(crate) mod ports;
pub(crate) mod process;
pub(crate) mod signals;
pub(crate) mod workspace;
