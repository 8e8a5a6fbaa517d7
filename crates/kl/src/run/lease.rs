//! Keeping a reservation alive while Terraform works.
//!
//! The client counts from the moment it *sent* a renewal, on a clock that nobody sets. After two
//! thirds of the lease without success nothing new may begin, so Terraform gets one interrupt; the
//! renewals go on, because a reservation ends only when somebody ends it.

use std::time::Duration;

use protocol::runs::Run;
use protocol::{Code, RunId};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::signals::stop;
use crate::client::Client;
use crate::output::Printer;
use crate::terraform::Stop;

/// The task that renews; it ends with the value.
pub(crate) struct Lease {
    task: Option<JoinHandle<()>>,
}

struct Renewal {
    client: Client,
    run: RunId,
    token: i64,
    lease: Duration,
    stop: watch::Sender<Stop>,
    printer: Printer,
}

impl Lease {
    /// Renews from now on what a run holds; a run that holds nothing needs no renewing.
    pub(crate) fn keep(
        client: &Client,
        run: &Run,
        stop: watch::Sender<Stop>,
        printer: Printer,
    ) -> Self {
        let task = run.reservation.as_ref().map(|reservation| {
            let renewal = Renewal {
                client: client.clone(),
                run: run.id,
                token: reservation.token,
                lease: Duration::from_secs(reservation.lease_seconds.into()),
                stop,
                printer,
            };
            tokio::spawn(renewal.keep())
        });
        Self { task }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Renewal {
    async fn keep(self) {
        let mut alive_since = Instant::now();
        let mut warned = false;
        loop {
            tokio::time::sleep(self.lease / 3).await;
            let sent = Instant::now();
            // One that takes longer than until the next is due has missed its purpose.
            let answer = self
                .client
                .renew_run(&self.run, self.token, self.lease / 3)
                .await;
            match answer {
                Ok(renewed) => {
                    alive_since = sent;
                    if renewed.kept_count > 0 && !warned {
                        warned = true;
                        self.halt("an upload was kept instead of committed");
                    }
                }
                Err(error) => match error.code() {
                    Some(Code::LeaseLost | Code::RunEnded | Code::NotFound) => {
                        self.halt(&format!("the run has ended: {error}"));
                        return;
                    }
                    _ if !warned && alive_since.elapsed() > self.lease * 2 / 3 => {
                        warned = true;
                        self.halt(&format!("the lease could not be renewed: {error}"));
                    }
                    _ => {}
                },
            }
        }
    }

    /// One interrupt, unless there was one already: a second would cost Terraform's last upload.
    fn halt(&self, why: &str) {
        self.printer
            .warning(&format!("{why}; nothing new is begun"));
        if self.stop.borrow().count == 0 {
            stop(&self.stop, why);
        }
    }
}
