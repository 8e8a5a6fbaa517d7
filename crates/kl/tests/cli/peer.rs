//! A listener on loopback that plays what stands between `kl` and its server: proxies, load
//! balancers, wrong addresses. It answers from a script and keeps what it was sent. It does not
//! play Kilolock itself; that takes the real one.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

pub(crate) struct Peer {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Peer {
    /// Answers one connection per entry, then stops listening.
    pub(crate) fn answering(script: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let script: Vec<String> = script.iter().map(|&answer| answer.to_owned()).collect();
        let log = Arc::clone(&seen);
        thread::spawn(move || {
            for answer in script {
                let Ok((stream, _)) = listener.accept() else {
                    return;
                };
                log.lock().unwrap().push(exchange(stream, &answer));
            }
        });
        Self { address, seen }
    }

    /// The address of a state behind the peer.
    pub(crate) fn state_url(&self) -> String {
        format!(
            "http://{}/v1/states/ws_0123456789ab/env_0123456789ab/prod",
            self.address
        )
    }

    /// The heads of the requests that came.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

fn exchange(mut stream: TcpStream, answer: &str) -> String {
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => break,
            Ok(count) => request.extend_from_slice(&piece[..count]),
        }
    }
    // The client may have gone; the test will say so if that matters.
    _ = stream.write_all(answer.as_bytes());
    String::from_utf8_lossy(&request).into_owned()
}

/// An HTTP answer with a body.
pub(crate) fn answer(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}",
        body.len()
    )
}
