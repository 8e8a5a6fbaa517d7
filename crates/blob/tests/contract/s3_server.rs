//! A real S3-compatible server over a directory, on a runtime of its own, that can be stopped.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::{Service as HyperService, service_fn};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub(crate) const BUCKET: &str = "archives";
pub(crate) const ACCESS_KEY: &str = "tester";
pub(crate) const SECRET_KEY: &str = "a-secret-of-tests";

/// What the server does to its requests.
#[derive(Debug, Default)]
struct Trouble {
    /// Requests so far.
    requests: AtomicU64,
    /// Requests that are answered before some fail, and how many fail then.
    fine: AtomicI64,
    failing: AtomicI64,
    /// How long each request is kept waiting.
    delay_ms: AtomicU64,
}

impl Trouble {
    /// Whether the next request fails.
    fn strikes(&self) -> bool {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.fine.fetch_sub(1, Ordering::SeqCst) <= 0
            && self.failing.fetch_sub(1, Ordering::SeqCst) > 0
    }
}

/// A running server; it stops when dropped.
pub(crate) struct S3Server {
    trouble: Arc<Trouble>,
    root: TempDir,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
}

impl S3Server {
    pub(crate) fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join(BUCKET)).unwrap();
        // Below the ports that Linux takes for outgoing connections (32768 and up): one of those could become the near
        // end of somebody's connection while the server is stopped.
        let mut listeners = (0..1_000).filter_map(|_| {
            let port = rand::random_range(20_000..32_000_u16);
            std::net::TcpListener::bind(("127.0.0.1", port)).ok()
        });
        let listener = listeners.next().expect("loopback has a free port");
        let mut server = Self {
            trouble: Arc::default(),
            address: listener.local_addr().unwrap(),
            root,
            stop: None,
        };
        server.serve(listener);
        server
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests there were so far.
    #[expect(clippy::allow_attributes, reason = "not every test binary has outages")]
    #[allow(dead_code)]
    pub(crate) fn requests(&self) -> u64 {
        self.trouble.requests.load(Ordering::SeqCst)
    }

    /// Fails `failing` requests in a row after `fine` more.
    #[expect(clippy::allow_attributes, reason = "not every test binary has outages")]
    #[allow(dead_code)]
    pub(crate) fn fail_after(&self, fine: u64, failing: u64) {
        let (fine, failing) = (fine.cast_signed(), failing.cast_signed());
        self.trouble.failing.store(0, Ordering::SeqCst);
        self.trouble.fine.store(fine, Ordering::SeqCst);
        self.trouble.failing.store(failing, Ordering::SeqCst);
    }

    /// Keeps each request waiting.
    #[expect(clippy::allow_attributes, reason = "not every test binary has outages")]
    #[allow(dead_code)]
    pub(crate) fn delay(&self, pause: Duration) {
        let pause = u64::try_from(pause.as_millis()).unwrap();
        self.trouble.delay_ms.store(pause, Ordering::SeqCst);
    }

    /// Breaks off everything, as an outage does.
    #[expect(clippy::allow_attributes, reason = "not every test binary has outages")]
    #[allow(dead_code)]
    pub(crate) fn stop(&mut self) {
        self.stop = None;
    }

    /// Comes back with what it had.
    #[expect(clippy::allow_attributes, reason = "not every test binary has outages")]
    #[allow(dead_code)]
    pub(crate) fn start_again(&mut self) {
        let listener = loop {
            match std::net::TcpListener::bind(self.address) {
                Ok(listener) => break listener,
                Err(_) => std::thread::yield_now(),
            }
        };
        self.serve(listener);
    }

    fn serve(&mut self, listener: std::net::TcpListener) {
        let (stop, stopped) = oneshot::channel::<()>();
        self.stop = Some(stop);
        let files = FileSystem::new(self.root.path()).unwrap();
        let mut service = S3ServiceBuilder::new(files);
        service.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let service = service.build();
        let trouble = Arc::clone(&self.trouble);
        let service = service_fn(move |request: Request<Incoming>| {
            let (service, trouble) = (service.clone(), Arc::clone(&trouble));
            async move {
                let pause = trouble.delay_ms.load(Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(pause)).await;
                if trouble.strikes() {
                    let mut failed = Response::new(s3s::Body::empty());
                    *failed.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                    return Ok::<_, Infallible>(failed);
                }
                Ok(HyperService::call(&service, request).await.unwrap())
            }
        });
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                listener.set_nonblocking(true).unwrap();
                let listener = TcpListener::from_std(listener).unwrap();
                let accept = async {
                    loop {
                        let (socket, _) = listener.accept().await.unwrap();
                        socket.set_nodelay(true).unwrap();
                        let service = service.clone();
                        tokio::spawn(async move {
                            let _ = Builder::new(TokioExecutor::new())
                                .serve_connection(TokioIo::new(socket), service)
                                .await;
                        });
                    }
                };
                tokio::select! {
                    () = accept => {}
                    _ = stopped => {}
                }
            });
        });
    }
}
