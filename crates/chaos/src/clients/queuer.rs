//! Clients that stand in line: each wants what the others want, holds it for a moment, and asks again.
//!
//! They hardly cost the service anything, so how long one of them waits after the last one in its way has ended is the
//! queue's doing alone.

use std::time::Duration;

use super::Actor;
use super::wanted::Wanted;

/// How long one holds what it waited for: longer than it takes the next one to be in line.
const HELD: Duration = Duration::from_millis(150);
const AND_UP_TO_MS: u64 = 100;

impl Actor {
    pub(super) async fn queuer_turn(&mut self) {
        let state = self.pick_state();
        let wanted = Wanted::write(&state.addresses[..1]);
        let Some(mut run) = self.begin(&state.name, &wanted, None).await else {
            self.pause(AND_UP_TO_MS).await;
            return;
        };
        tokio::time::sleep(HELD).await;
        self.pause(AND_UP_TO_MS).await;
        // How long a request takes that waits for nobody.
        self.renew(&mut run).await;
        self.finish(&run, "succeeded").await;
    }
}
