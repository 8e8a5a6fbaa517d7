//! A wire between a replica and the database that can be listened to and cut.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A loopback proxy in front of the test server.
#[derive(Debug)]
pub struct Wire {
    /// Where the wire begins.
    pub address: SocketAddr,
    statements: Arc<AtomicU64>,
    connected: watch::Sender<bool>,
}

impl Wire {
    /// Starts a wire to the server of `KL_TEST_DATABASE_URL`.
    ///
    /// # Panics
    ///
    /// When loopback cannot be listened on.
    pub async fn start() -> Self {
        let options = super::server_options();
        let server = format!("{}:{}", options.get_host(), options.get_port());
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let statements = Arc::new(AtomicU64::new(0));
        let (connected, state) = watch::channel(true);
        let counter = Arc::clone(&statements);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // A cut wire takes connections and closes them at once, as a proxy with nothing behind it does.
                if *state.borrow() {
                    let (server, counter) = (server.clone(), Arc::clone(&counter));
                    let mut state = state.clone();
                    tokio::spawn(async move {
                        tokio::select! {
                            () = carry(client, &server, &counter) => {}
                            _ = state.wait_for(|connected| !connected) => {}
                        }
                    });
                }
            }
        });
        Self {
            address,
            statements,
            connected,
        }
    }

    /// How many statements have gone through.
    #[must_use]
    pub fn statements(&self) -> u64 {
        self.statements.load(Ordering::SeqCst)
    }

    /// Breaks every connection and takes no new ones.
    pub fn cut(&self) {
        self.connected.send_replace(false);
    }

    /// Takes connections again.
    pub fn mend(&self) {
        self.connected.send_replace(true);
    }
}

async fn carry(client: TcpStream, server: &str, statements: &AtomicU64) {
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    let (mut client_read, mut client_write) = client.into_split();
    let (mut server_read, mut server_write) = server.into_split();
    let upwards = async {
        let mut frontend = Frontend::default();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match client_read.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(length) => {
                    statements.fetch_add(frontend.count(&buffer[..length]), Ordering::SeqCst);
                    if server_write.write_all(&buffer[..length]).await.is_err() {
                        return;
                    }
                }
            }
        }
    };
    let downwards = tokio::io::copy(&mut server_read, &mut client_write);
    tokio::select! {
        () = upwards => {}
        _ = downwards => {}
    }
}

/// What a client says, taken apart into messages (chapter 55 of the Postgres manual).
#[derive(Default)]
struct Frontend {
    pending: Vec<u8>,
    started: bool,
}

impl Frontend {
    /// How many messages that run a statement end in these bytes: Query and Execute.
    fn count(&mut self, bytes: &[u8]) -> u64 {
        self.pending.extend_from_slice(bytes);
        let mut statements = 0;
        loop {
            // The messages before the session has started have a length and no kind.
            let kind_length = usize::from(self.started);
            let Some(length) = self.pending.get(kind_length..kind_length + 4) else {
                break;
            };
            let length = length
                .iter()
                .fold(0, |sum, &byte| sum << 8 | usize::from(byte))
                + kind_length;
            if self.pending.len() < length {
                break;
            }
            let message: Vec<u8> = self.pending.drain(..length).collect();
            if self.started {
                statements += u64::from(matches!(message[0], b'Q' | b'E'));
            } else {
                // 80877103 asks for TLS, and what follows is again such a message.
                self.started = message[4..8] != 80_877_103_u32.to_be_bytes();
            }
        }
        statements
    }
}
