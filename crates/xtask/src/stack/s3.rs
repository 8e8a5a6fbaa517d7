//! An S3 server over a directory, run as another process of this program.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::net::TcpStream;

use super::scratch::Scratch;
use crate::host::ports::Ports;
use crate::host::process::{Process, StopWith, supervised};

/// The one bucket. Names under three letters are refused by clients.
const BUCKET: &str = "kilolock";
const ACCESS_KEY: &str = "klstack";

const READY_WITHIN: Duration = Duration::from_secs(15);

/// A running server, its bucket created.
#[derive(Debug)]
pub(crate) struct S3Server {
    process: Process,
    endpoint: String,
    secret_key: String,
}

impl S3Server {
    pub(crate) async fn start(scratch: &Scratch, ports: &mut Ports) -> Result<Self> {
        let port = ports.take()?;
        let root = scratch.data_dir("s3")?;
        // A directory below the root is a bucket.
        std::fs::create_dir(root.join(BUCKET)).context("cannot create the bucket")?;

        let secret_key: String = format!("{:032x}", rand::random::<u128>());
        let ourselves = std::env::current_exe().context("cannot find this program's own file")?;
        let mut server = supervised(&ourselves, None, StopWith::Terminate);
        server
            .arg("s3-server")
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .arg("--root")
            .arg(&root)
            .args(["--access-key", ACCESS_KEY])
            .env("KL_S3_SECRET_KEY", &secret_key);
        let mut process = Process::spawn("s3", server, StopWith::Terminate, scratch.path())?;
        process
            .wait_until(READY_WITHIN, || async {
                TcpStream::connect(("127.0.0.1", port)).await.is_ok()
            })
            .await?;
        Ok(Self {
            process,
            endpoint: format!("http://127.0.0.1:{port}"),
            secret_key,
        })
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// What the services need to keep archives here.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("KL_BLOBS", format!("s3://{BUCKET}")),
            ("KL_S3_ENDPOINT", self.endpoint.clone()),
            ("KL_S3_ACCESS_KEY", ACCESS_KEY.to_owned()),
            ("KL_S3_SECRET_KEY", self.secret_key.clone()),
        ]
    }

    /// What a client needs, by the names that the stack exports.
    pub(crate) fn environment(&self) -> [(&'static str, String); 4] {
        [
            ("KL_STACK_S3_ENDPOINT", self.endpoint.clone()),
            ("KL_STACK_S3_ACCESS_KEY", ACCESS_KEY.to_owned()),
            ("KL_STACK_S3_SECRET_KEY", self.secret_key.clone()),
            ("KL_STACK_S3_BUCKET", BUCKET.to_owned()),
        ]
    }
}
