//! A Redis that lies: it stands before the real one, asks it, and says something else.
//!
//! What it says is well formed, so that nobody who asks has a reason to go without the index, and is held against the truth:
//! a lie is an answer that differs from that of the real index, or that something was done which was not passed on. Now and
//! then it says nothing, an error, or what is no answer. It also wakes waiters for no reason, without end.

mod lies;
mod memory;
mod question;
mod resp;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

pub use lies::Lie;
use lies::Tongue;
use memory::Memory;
use question::Question;
use resp::{Value, read_answer, read_command};

use crate::proxy::Network;

/// How often all waiters are woken.
const WAKE_EVERY: Duration = Duration::from_millis(10);
/// How often a question gets no answer of its form. Each makes a replica go without the index for a second, and there is
/// nothing to lie about meanwhile.
const TROUBLE_EVERY: Duration = Duration::from_secs(4);
/// How the channels end on which it is said that something has ended.
const ENDED: &str = ":ended";
/// Longer than anybody waits.
const SILENCE: Duration = Duration::from_secs(2);

/// A running liar.
#[derive(Clone)]
pub struct Liar(Arc<Inner>);

struct Inner {
    port: u16,
    /// Where the truth is.
    truth: u16,
    told: [AtomicU64; Lie::ALL.len()],
    truths: AtomicU64,
    wakes: AtomicU64,
    troubles: AtomicU64,
    last_trouble: Mutex<Instant>,
    memory: Mutex<Memory>,
    rng: Mutex<StdRng>,
}

/// A connection to the real Redis.
struct Truth {
    reads: BufReader<OwnedReadHalf>,
    writes: OwnedWriteHalf,
}

impl Truth {
    async fn connect(port: u16) -> std::io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.set_nodelay(true)?;
        let (reads, writes) = stream.into_split();
        Ok(Self {
            reads: BufReader::new(reads),
            writes,
        })
    }

    async fn ask(&mut self, command: &[String]) -> std::io::Result<Value> {
        let command = Value::texts(command.iter().cloned());
        self.writes.write_all(&command.bytes()).await?;
        read_answer(&mut self.reads).await
    }
}

impl Liar {
    /// Begins to lie at a port about what the Redis at another says.
    ///
    /// # Errors
    ///
    /// When the port is taken.
    pub fn start(network: &Network, port: u16, truth: u16, seed: u64) -> Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("cannot listen on port {port}"))?;
        listener.set_nonblocking(true)?;
        let liar = Self(Arc::new(Inner {
            port,
            truth,
            told: std::array::from_fn(|_| AtomicU64::new(0)),
            truths: AtomicU64::new(0),
            wakes: AtomicU64::new(0),
            troubles: AtomicU64::new(0),
            last_trouble: Mutex::new(Instant::now()),
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

    /// How many answers were lies.
    #[must_use]
    pub fn lies(&self) -> u64 {
        self.by_kind().values().sum()
    }

    /// How many of each kind.
    #[must_use]
    pub fn by_kind(&self) -> BTreeMap<Lie, u64> {
        let told = self.0.told.iter().map(|told| told.load(Ordering::Relaxed));
        Lie::ALL.into_iter().zip(told).collect()
    }

    /// How many answers were true after all.
    #[must_use]
    pub fn truths(&self) -> u64 {
        self.0.truths.load(Ordering::Relaxed)
    }

    /// How many waiters were woken for nothing.
    #[must_use]
    pub fn wakes(&self) -> u64 {
        self.0.wakes.load(Ordering::Relaxed)
    }

    /// How many questions met an error, or were never answered.
    #[must_use]
    pub fn troubles(&self) -> u64 {
        self.0.troubles.load(Ordering::Relaxed)
    }

    async fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let (reads, mut writes) = stream.into_split();
        let mut reads = BufReader::new(reads);
        let mut truth = Truth::connect(self.0.truth).await?;
        while let Some(command) = read_command(&mut reads).await? {
            let word = command.first().map(|word| word.to_ascii_uppercase());
            let answer = match word.as_deref() {
                Some("PSUBSCRIBE") => return self.wake(&command, writes).await,
                Some("EVALSHA") => {
                    let hash = command.get(1).map_or("", String::as_str);
                    match self.memory(|memory| memory.question(hash)) {
                        Some(question) => self.lie(question, &command, &mut truth).await?,
                        None => Value::Error("NOSCRIPT No matching script".to_owned()),
                    }
                }
                Some("EVAL") => {
                    let question = self.learn(&command, &mut truth).await?;
                    self.lie(question, &command, &mut truth).await?
                }
                Some("HMGET") => self.lie(Question::Mark, &command, &mut truth).await?,
                // Snapshots are bytes, which nobody here passes on: there are none.
                Some("GET") => Value::Nil,
                Some("SET") => self.tell((Lie::SnapshotDropped, Value::text("OK"))),
                Some("UNLINK") => Value::Integer(1),
                // What a pool of connections asks before each question.
                Some("PING") => Value::text(command.get(1).map_or("PONG", String::as_str)),
                Some("UNWATCH" | "CLIENT") => Value::text("OK"),
                // How it forgets.
                _ => truth.ask(&command).await?,
            };
            writes.write_all(&answer.bytes()).await?;
        }
        Ok(())
    }

    /// What a script asks. From now on it is known by its hash, too.
    async fn learn(&self, command: &[String], truth: &mut Truth) -> std::io::Result<Question> {
        let text = command.get(1).map_or("", String::as_str);
        let question = Question::of_script(text);
        let load = ["SCRIPT", "LOAD", text].map(str::to_owned);
        if let Value::Text(hash) = truth.ask(&load).await? {
            self.memory(|memory| memory.learn(&hash, question));
        }
        Ok(question)
    }

    fn memory<T>(&self, look: impl FnOnce(&mut Memory) -> T) -> T {
        look(&mut self.0.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn draw(&self, below: u32) -> u32 {
        let mut rng = self.0.rng.lock().unwrap_or_else(PoisonError::into_inner);
        rng.random_range(0..below)
    }

    fn with_tongue<T>(&self, speak: impl FnOnce(&Tongue<'_>) -> T) -> T {
        let draw = |below| self.draw(below);
        self.memory(|memory| {
            let draw = &draw;
            speak(&Tongue { memory, draw })
        })
    }

    fn tell(&self, (lie, said): (Lie, Value)) -> Value {
        self.0.told[lie as usize].fetch_add(1, Ordering::Relaxed);
        said
    }

    async fn lie(
        &self,
        question: Question,
        command: &[String],
        truth: &mut Truth,
    ) -> std::io::Result<Value> {
        if let Some(trouble) = self.trouble().await {
            return Ok(trouble);
        }
        if question != Question::Mark {
            let (keys, arguments) = question::parts(command);
            self.memory(|memory| memory.overhear(question, keys, arguments));
        }
        if let Some(told) = self.with_tongue(|tongue| tongue.kept_back(question)) {
            return Ok(self.tell(told));
        }
        let truth = truth.ask(command).await?;
        if matches!(truth, Value::Error(_)) {
            // It has never seen the script, and is to be told it.
            return Ok(truth);
        }
        match self.with_tongue(|tongue| tongue.instead(question, &truth)) {
            Some(told) => Ok(self.tell(told)),
            None => {
                self.0.truths.fetch_add(1, Ordering::Relaxed);
                Ok(truth)
            }
        }
    }

    /// What is no answer, when it is time for that: an error, nonsense, or one that comes too late.
    async fn trouble(&self) -> Option<Value> {
        {
            let last = &self.0.last_trouble;
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.elapsed() < TROUBLE_EVERY {
                return None;
            }
            *last = Instant::now();
        }
        match self.0.troubles.fetch_add(1, Ordering::Relaxed) % 3 {
            0 => Some(Value::Error("ERR something is wrong".to_owned())),
            1 => Some(Value::text("nonsense")),
            _ => {
                tokio::time::sleep(SILENCE).await;
                Some(Value::Nil)
            }
        }
    }

    /// Confirms the subscriptions, then says without end that something has ended.
    async fn wake(&self, command: &[String], mut writes: OwnedWriteHalf) -> std::io::Result<()> {
        let patterns = command.get(1..).unwrap_or_default();
        // Each of them, or they are waited for.
        for (number, pattern) in (1..).zip(patterns) {
            let confirmed = Value::Array(vec![
                Value::text("psubscribe"),
                Value::text(pattern),
                Value::Integer(number),
            ]);
            writes.write_all(&confirmed.bytes()).await?;
        }
        let mut of_ends = patterns.iter().filter(|pattern| pattern.ends_with(ENDED));
        let pattern = of_ends.next().cloned().unwrap_or_default();
        let mut seen = 0;
        loop {
            tokio::time::sleep(WAKE_EVERY).await;
            let (channels, now) = self.memory(|memory| memory.waited_for_since(seen));
            seen = now;
            for channel in channels {
                self.0.wakes.fetch_add(1, Ordering::Relaxed);
                let message = ["pmessage", &pattern, &channel, ""].map(str::to_owned);
                writes.write_all(&Value::texts(message).bytes()).await?;
            }
        }
    }
}
