//! A Redis that lies: it speaks the protocol, knows the scripts of the index by their texts, and answers each as it likes.
//!
//! Nothing that it says is worked out from what it was told, so each answer of a script is a lie, whether it happens to be
//! true or not. It also wakes waiters for no reason.

mod answers;
mod resp;

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use answers::{Memory, Script};
use resp::{Value, read_command};

use crate::proxy::Network;

/// How often all waiters are woken.
const WAKE_EVERY: Duration = Duration::from_millis(4);

/// A running liar.
#[derive(Clone)]
pub struct Liar(Arc<Inner>);

struct Inner {
    port: u16,
    lies: AtomicU64,
    wakes: AtomicU64,
    troubles: AtomicU64,
    memory: Mutex<Memory>,
    rng: Mutex<StdRng>,
}

impl Liar {
    /// Begins to lie at a port.
    ///
    /// # Errors
    ///
    /// When the port is taken.
    pub fn start(network: &Network, port: u16, seed: u64) -> Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("cannot listen on port {port}"))?;
        listener.set_nonblocking(true)?;
        let liar = Self(Arc::new(Inner {
            port,
            lies: AtomicU64::new(0),
            wakes: AtomicU64::new(0),
            troubles: AtomicU64::new(0),
            memory: Mutex::new(Memory::default()),
            rng: Mutex::new(StdRng::seed_from_u64(seed)),
        }));
        let serving = liar.clone();
        network.runtime().spawn(async move {
            let Ok(listener) = TcpListener::from_std(listener) else {
                return;
            };
            while let Ok((stream, _)) = listener.accept().await {
                let liar = serving.clone();
                tokio::spawn(async move {
                    // A client that hangs up is no trouble.
                    let _ = liar.serve(stream).await;
                });
            }
        });
        Ok(liar)
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// How many scripts were answered.
    #[must_use]
    pub fn lies(&self) -> u64 {
        self.0.lies.load(Ordering::Relaxed)
    }

    /// How many waiters were woken for nothing.
    #[must_use]
    pub fn wakes(&self) -> u64 {
        self.0.wakes.load(Ordering::Relaxed)
    }

    /// How many scripts met an error, or were never answered.
    #[must_use]
    pub fn troubles(&self) -> u64 {
        self.0.troubles.load(Ordering::Relaxed)
    }

    async fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let (reads, mut writes) = stream.into_split();
        let mut reads = tokio::io::BufReader::new(reads);
        let mut asked_for = String::new();
        while let Some(command) = read_command(&mut reads).await? {
            let word = command.first().map(|word| word.to_ascii_uppercase());
            let answer = match word.as_deref() {
                Some("PSUBSCRIBE") => return self.wake(&command, writes).await,
                Some("EVALSHA") => {
                    asked_for = command.get(1).cloned().unwrap_or_default();
                    match self.script(&asked_for) {
                        Some(script) => self.lie(script, &command).await,
                        None => Value::Error("NOSCRIPT No matching script".to_owned()),
                    }
                }
                Some("EVAL") => {
                    let script = Script::of(command.get(1).map_or("", String::as_str));
                    self.memory(|memory| memory.learn(&asked_for, script));
                    self.lie(script, &command).await
                }
                Some("INFO") => {
                    Value::Bulk("# Memory\r\nmaxmemory_policy:noeviction\r\n".to_owned())
                }
                Some("PING") => Value::Simple("PONG"),
                _ => Value::Simple("OK"),
            };
            writes.write_all(&answer.bytes()).await?;
        }
        Ok(())
    }

    fn script(&self, hash: &str) -> Option<Script> {
        self.memory(|memory| memory.script(hash))
    }

    fn memory<T>(&self, look: impl FnOnce(&mut Memory) -> T) -> T {
        look(&mut self.0.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn draw(&self, below: u32) -> u32 {
        let mut rng = self.0.rng.lock().unwrap_or_else(PoisonError::into_inner);
        rng.random_range(0..below)
    }

    async fn lie(&self, script: Script, command: &[String]) -> Value {
        self.0.lies.fetch_add(1, Ordering::Relaxed);
        let (keys, arguments) = answers::parts(command);
        self.memory(|memory| memory.overhear(script, keys, arguments));
        // Rare, because each makes a replica go without for a second, and there is nothing to lie about meanwhile.
        match self.draw(6_000) {
            0 => {
                self.0.troubles.fetch_add(1, Ordering::Relaxed);
                return Value::Error("ERR something is wrong with the script".to_owned());
            }
            1 => {
                self.0.troubles.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            2 => {
                self.0.troubles.fetch_add(1, Ordering::Relaxed);
                return Value::Bulk("nonsense".to_owned());
            }
            _ => {}
        }
        self.memory(|memory| memory.answer(script, keys, |below| self.draw(below)))
    }

    /// Confirms the subscription, then says without end that something has ended.
    async fn wake(
        &self,
        command: &[String],
        mut writes: tokio::net::tcp::OwnedWriteHalf,
    ) -> std::io::Result<()> {
        let pattern = command.get(1).cloned().unwrap_or_default();
        let confirmed = Value::Array(vec![
            Value::Bulk("psubscribe".to_owned()),
            Value::Bulk(pattern.clone()),
            Value::Integer(1),
        ]);
        writes.write_all(&confirmed.bytes()).await?;
        loop {
            tokio::time::sleep(WAKE_EVERY).await;
            for channel in self.memory(|memory| memory.channels()) {
                self.0.wakes.fetch_add(1, Ordering::Relaxed);
                let message = Value::Array(vec![
                    Value::Bulk("pmessage".to_owned()),
                    Value::Bulk(pattern.clone()),
                    Value::Bulk(channel),
                    Value::Bulk(String::new()),
                ]);
                writes.write_all(&message.bytes()).await?;
            }
        }
    }
}
