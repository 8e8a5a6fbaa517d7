//! A wire between clients and the service that counts what goes through it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A listening wire. It leads nowhere until it is connected.
pub(super) struct Wire {
    address: SocketAddr,
    bytes: Arc<AtomicU64>,
    end: watch::Sender<Option<SocketAddr>>,
}

impl Wire {
    pub(super) async fn lay() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let bytes = Arc::new(AtomicU64::new(0));
        let (end, far) = watch::channel(None);
        let counter = Arc::clone(&bytes);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (counter, far) = (Arc::clone(&counter), far.clone());
                tokio::spawn(async move { carry(near, far, &counter).await });
            }
        });
        Ok(Self {
            address,
            bytes,
            end,
        })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Leads the wire to a service, such as `http://127.0.0.1:8080`.
    pub(super) fn connect(&self, url: &str) -> Result<()> {
        let address = url.strip_prefix("http://").context("not an http address")?;
        self.end.send_replace(Some(address.parse()?));
        Ok(())
    }

    /// What went through in both directions since the last call.
    pub(super) fn take_bytes(&self) -> u64 {
        self.bytes.swap(0, Ordering::Relaxed)
    }
}

/// A connection that breaks shows in what the client reports.
async fn carry(near: TcpStream, mut far: watch::Receiver<Option<SocketAddr>>, bytes: &AtomicU64) {
    let Ok(Some(address)) = far.wait_for(Option::is_some).await.map(|far| *far) else {
        return;
    };
    let Ok(far) = TcpStream::connect(address).await else {
        return;
    };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    tokio::join!(
        copy(near_read, far_write, bytes),
        copy(far_read, near_write, bytes)
    );
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    bytes: &AtomicU64,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        bytes.fetch_add(count as u64, Ordering::Relaxed);
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}
