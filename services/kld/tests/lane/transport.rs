//! What happens on the way: checksums, compression, slow and vanishing clients, more than the service can take.

use std::io::Write as _;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::future::join_all;
use md5::{Digest as _, Md5};
use protocol::Code;
use sqlx::Executor as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::documents::{Doc, case};
use super::stage::{Client, Reply, Stage};
use crate::harness::Setup;

fn md5(bytes: &[u8]) -> String {
    STANDARD.encode(Md5::digest(bytes))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// S15.
#[tokio::test(flavor = "multi_thread")]
async fn a_checksum_that_does_not_fit_changes_nothing() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let document = case("base-v4.json");
    let hex = format!("{:x}", u128::from_be_bytes(Md5::digest(&document).into()));
    let (right, other) = (md5(&document), md5(b"other"));
    let wrong: [&[&str]; 6] = [
        &[&other],
        &["zzz"],
        &[&hex],
        &[&right, &other],
        &[&right, &right],
        &[""],
    ];
    for route in ["prod", "prod/import"] {
        for digests in wrong {
            let mut request = ann.request("POST", route).body(document.clone());
            for digest in digests {
                request = request.header("content-md5", *digest);
            }
            let reply = Reply::of(request).await;
            assert_eq!(reply.status, 400, "{digests:?}: {reply:?}");
        }
    }
    let lock = case("lock-a.json");
    let reply = Reply::of(
        ann.request("LOCK", "prod")
            .header("content-md5", &other)
            .body(lock.clone()),
    )
    .await;
    reply.refused(Code::DigestMismatch);
    assert_eq!(ann.read("prod").await.status, 404);

    Reply::of(
        ann.request("LOCK", "prod")
            .header("content-md5", md5(&lock))
            .body(lock.clone()),
    )
    .await
    .ok();
    Reply::of(
        ann.request("UNLOCK", "prod")
            .header("content-md5", md5(&lock))
            .body(lock),
    )
    .await
    .ok();
    Reply::of(
        ann.request("POST", "prod")
            .header("content-md5", &right)
            .body(document.clone()),
    )
    .await
    .ok();
    ann.write("absent", document.clone()).await.ok();
    // Over the bytes as they came: before they are inflated.
    let packed = gzip(&document);
    let request = ann
        .request("POST", "packed")
        .header("content-encoding", "gzip");
    Reply::of(request.header("content-md5", &right).body(packed.clone()))
        .await
        .refused(Code::DigestMismatch);
    let request = ann
        .request("POST", "packed")
        .header("content-encoding", "gzip");
    Reply::of(request.header("content-md5", md5(&packed)).body(packed))
        .await
        .ok();
    assert!(ann.read("packed").await.ok().body == document);
}

/// S21.
#[tokio::test(flavor = "multi_thread")]
async fn compressed_bodies_are_stored_plain_or_refused() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let (plain, packed) = (case("base-v4.json"), case("base-v4.json.gz"));
    let half = plain.len() / 2;
    let members = [gzip(&plain[..half]), gzip(&plain[half..])].concat();
    let write = |name: &str, encoding: Option<&str>, body: &[u8]| {
        let mut request = ann.request("POST", name).body(body.to_vec());
        if let Some(encoding) = encoding {
            request = request.header("content-encoding", encoding);
        }
        Reply::of(request)
    };
    for (encoding, body, status) in [
        (None, &packed[..], 400),
        (Some("gzip, gzip"), &packed, 415),
        (Some("br"), &packed, 415),
        (Some("gzip"), &plain, 400),
        (Some("gzip"), &packed[..packed.len() - 6], 400),
        (Some("gzip"), &[&packed[..], b"tail"].concat(), 400),
    ] {
        let reply = write("prod", encoding, body).await;
        assert_eq!(reply.status, status, "{encoding:?}: {reply:?}");
    }
    assert_eq!(ann.read("prod").await.status, 404);
    for (name, body) in [("one", &packed), ("two", &members)] {
        write(name, Some("gzip"), body).await.ok();
        let reply = ann.read(name).await.ok();
        assert!(reply.header("content-encoding").is_none() && reply.body == plain);
    }
    write("three", Some("identity"), &plain).await.ok();
}

/// A connection of one's own, for what a well-behaved client does not do.
async fn raw(ann: &Client<'_>, head: &str) -> TcpStream {
    let address = ann.stage.app.replicas[ann.replica].address;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

fn head(ann: &Client<'_>, method: &str, name: &str, token: &str, rest: &str) -> String {
    let path = ann.path(name);
    format!("{method} {path} HTTP/1.1\r\nHost: kl\r\nAuthorization: Bearer {token}\r\n{rest}\r\n")
}

/// S21: who has no valid token is told so before sending a body.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_token_is_refused_before_the_body_is_asked_for() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let expect = "Content-Length: 1000\r\nExpect: 100-continue\r\n";
    for (token, begin) in [
        ("klp_nonsense", "HTTP/1.1 401"),
        (ann.token.as_str(), "HTTP/1.1 100"),
    ] {
        let mut stream = raw(&ann, &head(&ann, "POST", "prod", token, expect)).await;
        let mut answer = vec![0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), begin);
    }
}

/// S49: no connection is held while a body comes in, however slowly.
#[tokio::test(flavor = "multi_thread")]
async fn slow_uploads_hold_no_connection() {
    let stage = Stage::start_with(Setup {
        pool: 2,
        ..Setup::default()
    })
    .await;
    let ann = stage.writer().await;
    ann.write("prod", Doc::new(1).bytes()).await.ok();
    let body = Doc::of_size(2, 200).bytes();
    let length = format!("Content-Length: {}\r\n", body.len());
    let mut uploads = Vec::new();
    for n in 0..20 {
        let mut stream = raw(
            &ann,
            &head(&ann, "POST", &format!("slow{n}"), &ann.token, &length),
        )
        .await;
        stream.write_all(&body[..body.len() / 2]).await.unwrap();
        uploads.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    for serial in 2..30 {
        ann.write("prod", Doc::new(serial).bytes()).await.ok();
        ann.read("prod").await.ok();
    }
    for mut stream in uploads {
        stream.write_all(&body[body.len() / 2..]).await.unwrap();
        let mut answer = vec![0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 200");
    }
}

/// S49: clients that go away in the middle of anything.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_vanish_leave_no_connection_and_no_half_version_behind() {
    let stage = Stage::start_with(Setup {
        // Sixty read at once afterwards, and each may have to render.
        acquire_timeout: Duration::from_secs(20),
        ..Setup::default()
    })
    .await;
    let ann = stage.writer().await;
    ann.write("prod", Doc::of_size(1, 300).bytes()).await.ok();
    let large = Doc::of_size(2, 800).bytes();
    let attempts = (0..240_u64).map(|n| {
        let request = match n % 3 {
            0 => ann.request("GET", "prod"),
            1 => ann
                .request("POST", &format!("v{}", n % 7))
                .body(large.clone()),
            _ => ann
                .request("LOCK", "locks")
                .json(&super::stage::lock_info(&format!("l{n}"))),
        };
        request.timeout(Duration::from_millis(5 + n % 46)).send()
    });
    join_all(attempts).await;
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let (open, idle) = stage.app.replicas[0].app.db.connections();
        if open as usize == idle {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "{idle} of {open} connections are idle"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let calm = (0..60).map(|_| async { ann.read("prod").await });
    for reply in join_all(calm).await {
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    for n in 0..7 {
        let reply = ann.read(&format!("v{n}")).await;
        assert!(
            reply.status == 404 || reply.body == large,
            "v{n}: {}",
            reply.status
        );
    }
}

/// S49: a table that is locked for a while.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_hangs_gives_503_in_time_and_health_stays() {
    let stage = Stage::start_with(Setup {
        pool: 3,
        acquire_timeout: Duration::from_secs(1),
        ..Setup::default()
    })
    .await;
    let ann = stage.writer().await;
    ann.write("prod", Doc::new(1).bytes()).await.ok();
    let mut blocker = stage.app.database.owner().begin().await.unwrap();
    blocker
        .execute("LOCK TABLE states IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let started = Instant::now();
    let stuck = (0..15).map(|n| {
        let ann = ann.clone();
        async move {
            match n % 3 {
                0 => ann.read("prod").await,
                1 => ann.write("prod", Doc::new(2).bytes()).await,
                _ => ann.lock("prod", "x").await,
            }
        }
    });
    let (replies, health) = tokio::join!(join_all(stuck), async {
        Reply::of(stage.app.request("GET", "/healthz")).await.ok();
        assert!(stage.app.metrics().await.contains("kl_"));
        started.elapsed()
    });
    for reply in replies {
        assert!(reply.header("retry-after").is_some(), "{reply:?}");
        reply.refused(Code::Unavailable);
    }
    assert!(health < Duration::from_secs(3), "{health:?}");
    assert!(
        started.elapsed() < Duration::from_secs(40),
        "{:?}",
        started.elapsed()
    );
    blocker.rollback().await.unwrap();
    ann.write("prod", Doc::new(2).bytes()).await.ok();
}

/// S14, scaled down: large states come and go at once, and small ones are not kept waiting.
#[tokio::test(flavor = "multi_thread")]
async fn large_states_do_not_starve_small_ones() {
    let stage = Stage::start_with(Setup {
        acquire_timeout: Duration::from_secs(10),
        ..Setup::default()
    })
    .await;
    let ann = stage.writer().await;
    ann.write("small", Doc::new(1).bytes()).await.ok();
    let large = Doc::of_size(1, 7_500).bytes();
    assert!(
        large.len() > 4 * 1024 * 1024,
        "large by the engine's measure: {}",
        large.len()
    );
    let loads = (0..6).map(|n| {
        let (ann, large) = (ann.clone(), large.clone());
        async move {
            let name = format!("l{n}");
            ann.write(&name, large.clone()).await.ok();
            assert!(ann.read(&name).await.ok().body == large);
        }
    });
    let (began, mut slowest) = (Instant::now(), Duration::ZERO);
    let mut done = std::pin::pin!(join_all(loads));
    loop {
        let started = Instant::now();
        let poll = async {
            ann.read("small").await.ok();
            started.elapsed()
        };
        tokio::select! {
            biased;
            took = poll => slowest = slowest.max(took),
            _ = &mut done => break,
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
            _ = &mut done => break,
        }
    }
    // A slow machine is slow at all of it alike. A small one that had to wait for the large ones would take about as
    // long as they do.
    let whole = began.elapsed();
    let most = Duration::from_secs(5).max(whole / 2);
    assert!(slowest < most, "{slowest:?} of {whole:?}");
}

/// A body over the limit is refused before it is read.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_limit_is_a_413_at_once() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let length = format!("Content-Length: {}\r\n", 600_u64 * 1024 * 1024);
    let mut stream = raw(&ann, &head(&ann, "POST", "prod", &ann.token, &length)).await;
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 413");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_is_taken_and_given_in_gzip_within_the_same_bounds() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    ann.write_locked("prod", Doc::of_size(1, 200).bytes()).await;
    let full = format!("{}/{}/prod", stage.workspace, stage.environment);
    let post = |path: &str, body: Vec<u8>| {
        let takes_more = ["/environments", "/rollback"];
        let token = if takes_more.iter().any(|end| path.ends_with(end)) {
            &stage.admin
        } else {
            &ann.token
        };
        let request = stage.app.request("POST", path).bearer_auth(token);
        let request = request.header("content-type", "application/json");
        Reply::of(request.header("content-encoding", "gzip").body(body))
    };
    let resolve = "/v1/state-engine/state/resolve";
    let asked = format!("{{\"state\":\"{full}\"}}");
    let plain = post(resolve, gzip(asked.as_bytes())).await.ok().json();
    assert_eq!(plain["seq"], 1);

    // Each way of reading a body: named state, plain JSON, a request that creates.
    let padded = |bytes: usize| gzip(format!("{{\"x\":\"{}\"}}", "x".repeat(bytes)).as_bytes());
    let bomb = padded(64 << 20);
    assert!(bomb.len() < 1 << 20);
    let environments = format!("/v1/workspaces/{}/environments", stage.workspace);
    for path in ["/v1/runs", resolve, "/v1/runs/reopen", &environments] {
        let reply = post(path, bomb.clone()).await;
        reply.refused(Code::BodyTooLarge);
        post(path, b"{}".to_vec())
            .await
            .refused(Code::InvalidRequest);
    }
    let rollback = format!("{}/rollback", ann.path("prod"));
    post(&rollback, bomb).await.refused(Code::BodyTooLarge);
    post(&rollback, gzip(b"{\"to\":\"1\"}"))
        .await
        .refused(Code::InvalidRequest);

    let inventory = |coding: Option<&str>| {
        let path = format!("/v1/state-engine/state/inventory?state={full}");
        let mut request = stage.app.request("GET", &path).bearer_auth(&ann.token);
        if let Some(coding) = coding {
            request = request.header("accept-encoding", coding);
        }
        Reply::of(request)
    };
    let plain = inventory(None).await.ok();
    assert_eq!(plain.header("content-encoding"), None);
    let packed = inventory(Some("gzip")).await.ok();
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert_eq!(packed.header("vary"), Some("Accept-Encoding"));
    assert!(
        packed.body.len() * 5 < plain.body.len(),
        "{}",
        packed.body.len()
    );
    let mut unpacked = Vec::new();
    std::io::Read::read_to_end(
        &mut flate2::read::GzDecoder::new(&packed.body[..]),
        &mut unpacked,
    )
    .unwrap();
    assert_eq!(unpacked, plain.body);
}
