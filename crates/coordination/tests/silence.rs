//! A Redis that is there, and says nothing any more: a machine without power, a cable that was cut.
//!
//! Needs `KL_TEST_REDIS_URL`; `cargo xtask test` provides it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use coordination::testing::works;
use coordination::{Index, Link};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// An answer is waited for half a second, and a broken link rests for one.
const RECOVERED_WITHIN: Duration = Duration::from_secs(6);

/// Passes on to the real Redis what comes by connections that are not silenced.
struct Cable {
    port: u16,
    connections: Arc<AtomicUsize>,
    silenced: Arc<AtomicUsize>,
}

impl Cable {
    async fn to(redis: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let cable = Self {
            port: listener.local_addr().expect("an address").port(),
            connections: Arc::default(),
            silenced: Arc::default(),
        };
        let (connections, silenced) = (cable.connections.clone(), cable.silenced.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let number = connections.fetch_add(1, Ordering::SeqCst) + 1;
                let server = TcpStream::connect(&redis).await.expect("Redis is there");
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(pass_on(from_client, to_server, number, silenced.clone()));
                tokio::spawn(pass_on(from_server, to_client, number, silenced.clone()));
            }
        });
        cable
    }

    /// Cuts the connections that there are, without a word to either side.
    fn cut(&self) {
        let connections = self.connections.load(Ordering::SeqCst);
        self.silenced.store(connections, Ordering::SeqCst);
    }
}

async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    number: usize,
    silenced: Arc<AtomicUsize>,
) {
    let mut bytes = [0; 4_096];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if number > silenced.load(Ordering::SeqCst) && to.write_all(&bytes[..count]).await.is_err()
        {
            return;
        }
    }
}

#[tokio::test]
async fn a_connection_that_fell_silent_is_replaced() {
    let url = std::env::var("KL_TEST_REDIS_URL").expect("KL_TEST_REDIS_URL names a Redis");
    let (_, rest) = url.split_once("://").expect("an address");
    let (redis, database) = rest.split_once('/').unwrap_or((rest, ""));
    let cable = Cable::to(redis.to_owned()).await;
    let url = format!("redis://127.0.0.1:{}/{database}", cable.port);
    let index = Index::new(Link::new(&url).expect("an address of Redis"));
    assert!(works(&index).await);
    let before = cable.connections.load(Ordering::SeqCst);
    for _ in 0..2 {
        cable.cut();
        assert!(!works(&index).await);
        let began = Instant::now();
        while !works(&index).await {
            assert!(began.elapsed() < RECOVERED_WITHIN, "still silent");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    // One for each cut, and not one for each question.
    let opened = cable.connections.load(Ordering::SeqCst) - before;
    assert!((2..=4).contains(&opened), "{opened} connections");
}
