//! A real S3-compatible server over a directory, on a runtime of its own, that can be stopped.

use std::net::SocketAddr;

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

/// A running server; it stops when dropped.
pub(crate) struct S3Server {
    root: TempDir,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
}

impl S3Server {
    pub(crate) fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join(BUCKET)).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut server = Self {
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
