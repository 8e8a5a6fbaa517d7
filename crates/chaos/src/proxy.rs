//! Loopback TCP proxies that break on demand.
//!
//! They run on a thread of their own, so that a busy harness does not look like a slow network.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::plan::Trouble;

/// A piece of data, at most.
const PIECE: usize = 64 * 1024;

/// What a proxy does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    /// Where it leads.
    target: u16,
    trouble: Option<Trouble>,
    /// Connections of an earlier life are broken.
    life: u64,
}

/// The handle to a proxy. Dropping it ends the proxy.
#[derive(Debug, Clone)]
pub struct Proxy {
    port: u16,
    state: Arc<watch::Sender<State>>,
}

/// The thread that all proxies of a run share.
#[derive(Debug)]
pub struct Network {
    runtime: tokio::runtime::Handle,
    /// Dropping it ends the thread.
    _end: tokio::sync::oneshot::Sender<()>,
}

impl Network {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// When the machine has no more of them.
    pub fn start() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        std::thread::Builder::new()
            .name("network".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    let _ = ended.await;
                });
            })
            .context("cannot start a thread")?;
        Ok(Self {
            runtime: handle,
            _end: end,
        })
    }

    /// Where what serves the network runs.
    #[must_use]
    pub fn runtime(&self) -> &tokio::runtime::Handle {
        &self.runtime
    }

    /// A proxy at a port of its own that leads to another.
    ///
    /// # Errors
    ///
    /// When the port is taken.
    pub async fn proxy(&self, port: u16, target: u16) -> Result<Proxy> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = std::net::TcpListener::bind(address)
            .with_context(|| format!("cannot listen on {address}"))?;
        listener.set_nonblocking(true)?;
        let (state, seen) = watch::channel(State {
            target,
            trouble: None,
            life: 0,
        });
        self.runtime.spawn(async move {
            if let Ok(listener) = TcpListener::from_std(listener) {
                accept(listener, seen).await;
            }
        });
        Ok(Proxy {
            port,
            state: Arc::new(state),
        })
    }
}

impl Proxy {
    /// Where clients connect.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Leads elsewhere from now on; open connections break.
    pub fn lead_to(&self, target: u16) {
        self.state.send_modify(|state| {
            state.target = target;
            state.life += 1;
        });
    }

    /// Begins to make trouble.
    pub fn trouble(&self, trouble: Trouble) {
        self.state.send_modify(|state| {
            state.trouble = Some(trouble);
            if trouble == Trouble::Cut {
                state.life += 1;
            }
        });
    }

    /// Is well again. Connections that would not be are broken.
    pub fn heal(&self) {
        self.state.send_modify(|state| {
            let broke = matches!(
                state.trouble,
                Some(Trouble::HalfClose | Trouble::Blackhole | Trouble::Cut)
            );
            state.trouble = None;
            state.life += u64::from(broke);
        });
    }
}

async fn accept(listener: TcpListener, mut state: watch::Receiver<State>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // The handle is gone.
            changed = state.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        let Ok((client, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let now = *state.borrow();
        if now.trouble == Some(Trouble::Cut) {
            continue;
        }
        tokio::spawn(connect(client, now, state.clone()));
    }
}

async fn connect(client: TcpStream, born: State, state: watch::Receiver<State>) {
    let _ = client.set_nodelay(true);
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, born.target)).await else {
        return;
    };
    let _ = server.set_nodelay(true);
    let (client_reads, client_writes) = client.into_split();
    let (server_reads, server_writes) = server.into_split();
    let life = born.life;
    let there = pump(client_reads, server_writes, state.clone(), life, true);
    let back = pump(server_reads, client_writes, state, life, false);
    tokio::join!(there, back);
}

/// Passes data on in one direction until it ends, or the connection's life does.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut state: watch::Receiver<State>,
    life: u64,
    is_request: bool,
) {
    let mut piece = vec![0; PIECE];
    loop {
        let now = *state.borrow_and_update();
        if now.life != life {
            return;
        }
        match now.trouble {
            Some(Trouble::Blackhole) => {
                if state.changed().await.is_err() {
                    return;
                }
                continue;
            }
            Some(Trouble::HalfClose) if is_request => {
                let _ = to.shutdown().await;
                // The other direction goes on; this one waits for the end of the connection.
                while state.borrow_and_update().life == life {
                    if state.changed().await.is_err() {
                        return;
                    }
                }
                return;
            }
            _ => {}
        }
        let read = tokio::select! {
            read = from.read(&mut piece) => read,
            changed = state.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        let Ok(count @ 1..) = read else {
            // The end of one direction is not that of the other.
            let _ = to.shutdown().await;
            return;
        };
        let trouble = state.borrow().trouble;
        if let Some(Trouble::Delay { ms }) = trouble {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
        if to.write_all(&piece[..count]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers every byte with the same, and the proxy before it.
    async fn echo(network: &Network) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let target = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut reads, mut writes) = stream.split();
                    let _ = tokio::io::copy(&mut reads, &mut writes).await;
                });
            }
        });
        for _ in 0..1_000 {
            let port = rand::random_range(20_000..32_000);
            if let Ok(proxy) = network.proxy(port, target).await {
                return proxy;
            }
        }
        panic!("loopback has no free port");
    }

    async fn call(stream: &mut TcpStream) -> std::io::Result<u8> {
        stream.write_all(&[7]).await?;
        stream.read_u8().await
    }

    #[tokio::test]
    async fn a_cut_breaks_and_refuses_until_it_is_healed() {
        let network = Network::start().unwrap();
        let proxy = echo(&network).await;
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port()));
        let mut stream = connect().await.unwrap();
        assert_eq!(call(&mut stream).await.unwrap(), 7);
        proxy.trouble(Trouble::Cut);
        assert!(call(&mut stream).await.is_err());
        let mut refused = connect().await.unwrap();
        assert!(call(&mut refused).await.is_err());
        proxy.heal();
        assert_eq!(call(&mut connect().await.unwrap()).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_black_hole_takes_everything_and_gives_nothing() {
        let network = Network::start().unwrap();
        let proxy = echo(&network).await;
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port()))
            .await
            .unwrap();
        assert_eq!(call(&mut stream).await.unwrap(), 7);
        proxy.trouble(Trouble::Blackhole);
        // Until the other thread has heard of it there is an answer.
        let patience = Duration::from_millis(500);
        let silence = async {
            while let Ok(answer) = tokio::time::timeout(patience, call(&mut stream)).await {
                assert_eq!(answer.unwrap(), 7);
            }
        };
        tokio::time::timeout(Duration::from_secs(20), silence)
            .await
            .unwrap();
        proxy.heal();
        assert!(call(&mut stream).await.is_err());
    }

    #[tokio::test]
    async fn half_a_connection_still_answers() {
        let network = Network::start().unwrap();
        let proxy = echo(&network).await;
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port()))
            .await
            .unwrap();
        assert_eq!(call(&mut stream).await.unwrap(), 7);
        proxy.trouble(Trouble::HalfClose);
        // The server hears the end and says its own.
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    }
}
