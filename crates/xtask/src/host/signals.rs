//! The signals that end a command early.

use std::fmt;

use tokio::signal::unix::{SignalKind, signal};

/// A signal that asks xtask to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopSignal {
    Hangup,
    Interrupt,
    Terminate,
}

impl StopSignal {
    /// The shell's convention for "ended by signal n".
    pub(crate) fn exit_code(self) -> u8 {
        128 + match self {
            Self::Hangup => 1,
            Self::Interrupt => 2,
            Self::Terminate => 15,
        }
    }
}

impl fmt::Display for StopSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hangup => "SIGHUP",
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        })
    }
}

/// Waits for the first signal that asks us to stop. Never returns when no handler can be installed: the default
/// action then ends the process, and its children follow by their parent-death signal.
pub(crate) async fn caught() -> StopSignal {
    tokio::select! {
        () = arrives(SignalKind::hangup()) => StopSignal::Hangup,
        () = arrives(SignalKind::interrupt()) => StopSignal::Interrupt,
        () = arrives(SignalKind::terminate()) => StopSignal::Terminate,
    }
}

async fn arrives(kind: SignalKind) {
    match signal(kind) {
        Ok(mut stream) => {
            stream.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}
