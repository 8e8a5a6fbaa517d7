//! `xtask s3-server`: the S3 server of a stack. Hidden; started by [`crate::stack::s3`].

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tokio::net::TcpListener;

#[derive(Args, Debug)]
pub(crate) struct S3ServerArgs {
    #[arg(long)]
    listen: SocketAddr,
    /// Each directory below it is a bucket.
    #[arg(long)]
    root: PathBuf,
    #[arg(long)]
    access_key: String,
    /// From the environment: a command line can be read by everyone on the machine.
    #[arg(long, env = "KL_S3_SECRET_KEY", hide_env_values = true)]
    secret_key: String,
}

/// Serves until the process is ended.
pub(crate) async fn run(args: S3ServerArgs) -> Result<u8> {
    let files = FileSystem::new(&args.root)
        .map_err(|error| anyhow!("cannot serve {}: {error:?}", args.root.display()))?;
    let mut service = S3ServiceBuilder::new(files);
    service.set_auth(SimpleAuth::from_single(args.access_key, args.secret_key));
    let service = service.build();

    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    loop {
        let (socket, _) = listener.accept().await?;
        // Without it a GET waits 40 ms for the client's delayed acknowledgement of the headers.
        socket.set_nodelay(true)?;
        let service = service.clone();
        tokio::spawn(async move {
            // A connection that breaks is the client's business.
            let _ = Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(socket), service)
                .await;
        });
    }
}
