//! Readers: they see the last committed version, whole.

use super::Actor;

impl Actor {
    pub(super) async fn reader_turn(&mut self) {
        let state = self.pick_state();
        self.read(&state.name).await;
        self.pause(16).await;
    }
}
