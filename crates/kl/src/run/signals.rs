//! Who wants the work to stop: the user, the system, or a lease that is running out.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::failure::{Failure, Kind, Result};
use crate::terraform::Stop;

/// Listens for interrupts from now on: the process no longer ends by one.
pub(crate) struct Interrupts {
    sender: watch::Sender<Stop>,
}

impl Interrupts {
    pub(crate) fn listen() -> Result<Self> {
        let (sender, _) = watch::channel(Stop::default());
        for (kind, why) in [
            (SignalKind::interrupt(), "interrupted"),
            (SignalKind::terminate(), "asked to terminate"),
            (SignalKind::hangup(), "the terminal went away"),
        ] {
            let mut signals = signal(kind)?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while signals.recv().await.is_some() {
                    stop(&sender, why);
                }
            });
        }
        Ok(Self { sender })
    }

    pub(crate) fn receiver(&self) -> watch::Receiver<Stop> {
        self.sender.subscribe()
    }

    pub(crate) fn sender(&self) -> watch::Sender<Stop> {
        self.sender.clone()
    }

    /// Fails if somebody has asked to stop.
    pub(crate) fn check(&self) -> Result<()> {
        let stop = self.sender.borrow();
        match stop.count {
            0 => Ok(()),
            _ => Err(stopped(&stop.why)),
        }
    }

    /// Waits for something, unless somebody asks to stop first.
    pub(crate) async fn unless<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let mut receiver = self.receiver();
        self.check()?;
        tokio::select! {
            done = work => Ok(done),
            _ = receiver.changed() => Err(stopped(&self.sender.borrow().why)),
        }
    }
}

/// One more request to stop. The first one's reason is the one that is told.
pub(super) fn stop(sender: &watch::Sender<Stop>, why: &str) {
    sender.send_modify(|stop| {
        stop.count += 1;
        if stop.count == 1 {
            stop.why = why.to_owned();
        }
    });
}

fn stopped(why: &str) -> Failure {
    Failure::message(Kind::Failed, format!("stopped: {why}"))
}
