//! One suite for every store: what the rest of the code relies on.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on stops where it is"
)]

mod s3_server;

use std::time::{SystemTime, UNIX_EPOCH};

use blob::{
    BlobError, Blobs, DOWNLOAD_LIFE, ObjectKey, PIECE_BYTES, PutTerms, S3Settings, Signing,
    UPLOAD_LIFE,
};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use s3_server::S3Server;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// A store, and what keeps it alive.
struct Store {
    blobs: Blobs,
    _folder: Option<TempDir>,
    _server: Option<S3Server>,
}

fn local() -> Store {
    let folder = tempfile::tempdir().unwrap();
    let signing = Signing::new([3; 32]);
    Store {
        blobs: Blobs::local(folder.path().join("blobs"), signing).unwrap(),
        _folder: Some(folder),
        _server: None,
    }
}

fn s3() -> Store {
    _ = rustls::crypto::ring::default_provider().install_default();
    let server = S3Server::start();
    let settings = S3Settings {
        bucket: s3_server::BUCKET.to_owned(),
        region: "us-east-1".to_owned(),
        endpoint: Some(server.endpoint()),
        access_key: s3_server::ACCESS_KEY.to_owned(),
        secret_key: s3_server::SECRET_KEY.to_owned().into(),
        encryption: None,
    };
    Store {
        blobs: Blobs::s3(&settings).unwrap(),
        _folder: None,
        _server: Some(server),
    }
}

fn stores() -> [Store; 2] {
    [local(), s3()]
}

fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

async fn put(blobs: &Blobs, key: &ObjectKey, bytes: &[u8]) {
    let mut upload = blobs.upload(key).await.unwrap();
    for piece in bytes.chunks(PIECE_BYTES) {
        upload.write(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    upload.finish().await.unwrap();
}

async fn keys(blobs: &Blobs, prefix: &str) -> Vec<String> {
    let mut found: Vec<String> = blobs
        .list(prefix)
        .map_ok(|stored| stored.key.to_string())
        .try_collect()
        .await
        .unwrap();
    found.sort();
    found
}

#[tokio::test]
async fn what_was_written_is_read_whole_and_in_part() {
    for Store { blobs, .. } in &stores() {
        let key = ObjectKey::random_below("w/ws_1/job_1/");
        let bytes: Vec<u8> = (0..PIECE_BYTES + 1000).map(|n| (n % 251) as u8).collect();
        put(blobs, &key, &bytes).await;
        let size = bytes.len() as u64;
        assert_eq!(blobs.size(&key).await.unwrap(), size);
        assert_eq!(blobs.read(&key, 0, size).await.unwrap(), bytes);
        let end = PIECE_BYTES + 10;
        assert_eq!(
            blobs.read(&key, 10, end as u64).await.unwrap(),
            bytes[10..end]
        );
        assert!(blobs.read(&key, 0, size + 1).await.is_err());
    }
}

#[tokio::test]
async fn an_absent_object_is_absent_and_deleting_it_is_no_error() {
    for Store { blobs, .. } in &stores() {
        let key = key("w/ws_1/job_1/0f");
        assert!(matches!(blobs.size(&key).await, Err(BlobError::Absent)));
        assert!(matches!(
            blobs.read(&key, 0, 1).await,
            Err(BlobError::Absent)
        ));
        blobs.delete(&key).await.unwrap();
        assert!(keys(blobs, "w/ws_1/").await.is_empty());
    }
}

#[tokio::test]
async fn lists_and_deletes_stay_below_their_prefix() {
    for Store { blobs, .. } in &stores() {
        for text in ["w/ws_1/job_1/a", "w/ws_1/job_1/q/b/0", "w/ws_1/job_12/c"] {
            put(blobs, &key(text), b"x").await;
        }
        assert_eq!(
            keys(blobs, "w/ws_1/job_1/").await,
            ["w/ws_1/job_1/a", "w/ws_1/job_1/q/b/0"]
        );
        assert_eq!(blobs.delete_below("w/ws_1/job_1/").await.unwrap(), 2);
        assert_eq!(keys(blobs, "w/ws_1/").await, ["w/ws_1/job_12/c"]);
    }
}

#[tokio::test]
async fn an_upload_that_is_given_up_or_left_behind_leaves_no_object() {
    for Store { blobs, .. } in &stores() {
        let key = ObjectKey::random_below("w/ws_1/job_1/");
        let mut upload = blobs.upload(&key).await.unwrap();
        upload.write(Bytes::from_static(b"half")).await.unwrap();
        upload.abort().await.unwrap();
        assert!(matches!(blobs.size(&key).await, Err(BlobError::Absent)));

        let mut upload = blobs.upload(&key).await.unwrap();
        upload.write(Bytes::from_static(b"half")).await.unwrap();
        let trace = upload.trace();
        // As after a kill: nobody aborts, and another process cleans up by what was noted.
        std::mem::forget(upload);
        assert!(matches!(blobs.size(&key).await, Err(BlobError::Absent)));
        blobs.abort(&key, &trace).await.unwrap();
        blobs.abort(&key, &trace).await.unwrap();
        assert!(keys(blobs, "w/ws_1/").await.is_empty());
    }
}

#[tokio::test]
async fn what_a_dead_process_was_receiving_goes_with_everything_below_its_prefix() {
    let store = local();
    let parts = store._folder.as_ref().unwrap().path().join("blobs/parts");
    for text in ["w/ws_1/job_1/q/0/0", "w/ws_1/job_12/q/0/0"] {
        let mut upload = store.blobs.upload(&key(text)).await.unwrap();
        upload.write(Bytes::from_static(b"half")).await.unwrap();
        std::mem::forget(upload);
    }
    store.blobs.delete_below("w/ws_1/job_1/").await.unwrap();
    let left: Vec<_> = std::fs::read_dir(parts)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(left.len(), 1);
    assert!(left[0].starts_with("w.ws_1.job_12.q.0.0."), "{left:?}");
    // A trace from anywhere else removes nothing.
    let elsewhere = store._folder.as_ref().unwrap().path().join("kept");
    std::fs::write(&elsewhere, "x").unwrap();
    let key = key("w/ws_1/job_1/0f");
    for trace in ["../../kept", "../kept", "", ".", "..", "a..b", "/kept"] {
        store.blobs.abort(&key, trace).await.unwrap();
    }
    assert!(elsewhere.exists());
}

#[tokio::test]
async fn s3_checks_every_signature() {
    let store = s3();
    let blobs = &store.blobs;
    let http = reqwest::Client::new();
    let body = b"the very bytes".to_vec();
    let terms = PutTerms {
        size_bytes: body.len() as u64,
        sha256: Sha256::digest(&body).into(),
    };
    let put_key = key("w/ws_1/job_1/q/0/0");
    let signed = blobs
        .sign_put(&put_key, &terms, now(), UPLOAD_LIFE)
        .await
        .unwrap();
    let send = async |url: &str, method: &str, checksum: Option<&str>, body: &[u8]| {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = http.request(method, url).body(body.to_vec());
        for (name, value) in &signed.headers {
            request = match (name.as_str(), checksum) {
                ("x-amz-checksum-sha256", Some("")) => request,
                ("x-amz-checksum-sha256", Some(other)) => request.header(name, other),
                _ => request.header(name, value),
            };
        }
        request.send().await.unwrap().status().as_u16()
    };
    let other_key = signed.url.replace("/q/0/0", "/q/0/1");
    let checksum = PutTerms {
        sha256: Sha256::digest(b"other").into(),
        ..terms.clone()
    }
    .checksum();
    let refusals = [
        send(&other_key, "PUT", None, &body).await,
        send(&signed.url, "DELETE", None, b"").await,
        send(&signed.url, "PUT", Some(&checksum), b"other").await,
        send(&signed.url, "PUT", Some(""), &body).await,
        send(&signed.url, "PUT", None, b"longer than the very bytes").await,
        send(&signed.url, "PUT", None, b"other bytes...").await,
    ];
    assert!(
        refusals.iter().all(|status| matches!(status, 400 | 403)),
        "{refusals:?}"
    );
    assert!(keys(blobs, "w/ws_1/job_1/q/0/1").await.is_empty());
    assert_eq!(send(&signed.url, "PUT", None, &body).await, 200);
    assert_eq!(
        blobs.read(&put_key, 0, terms.size_bytes).await.unwrap(),
        body
    );

    let signed = blobs
        .sign_get(&put_key, "prod.klstate", now(), DOWNLOAD_LIFE)
        .await
        .unwrap();
    let got = http.get(&signed.url).send().await.unwrap();
    assert_eq!(got.status().as_u16(), 200);
    let kept = got.headers()["content-disposition"]
        .to_str()
        .unwrap()
        .to_owned();
    assert_eq!(kept, "attachment; filename=\"prod.klstate\"");
    assert_eq!(got.bytes().await.unwrap(), body);
    let stranger = signed.url.replace("prod.klstate", "evil.html");
    for url in [&stranger, &signed.url.replace("/q/0/0", "/q/0/2")] {
        assert_eq!(http.get(url).send().await.unwrap().status().as_u16(), 403);
    }
}

#[tokio::test]
async fn the_local_folders_signatures_bind_the_same() {
    let store = local();
    let Blobs::Local(folder) = &store.blobs else {
        unreachable!("it is a folder")
    };
    let signing = folder.signing();
    let query = |url: &str| -> (u64, String) {
        let (_, query) = url.split_once("expires=").unwrap();
        let (expires, signature) = query.split_once("&signature=").unwrap();
        (expires.parse().unwrap(), signature.to_owned())
    };
    let (mine, other) = (key("w/ws_1/job_1/a"), key("w/ws_1/job_1/b"));
    let signed = store
        .blobs
        .sign_get(&mine, "f", 1_000, DOWNLOAD_LIFE)
        .await
        .unwrap();
    let (expires, signature) = query(&signed.url);
    let allows = |key, name, expires, now| signing.allows_get(key, name, expires, &signature, now);
    assert!(allows(&mine, "f", expires, 1_000));
    assert!(!allows(&other, "f", expires, 1_000));
    assert!(!allows(&mine, "g", expires, 1_000));
    assert!(!allows(&mine, "f", expires + 1, 1_000));
    assert!(!allows(&mine, "f", expires, expires));

    let terms = PutTerms {
        size_bytes: 3,
        sha256: Sha256::digest(b"abc").into(),
    };
    let signed = store
        .blobs
        .sign_put(&mine, &terms, 1_000, UPLOAD_LIFE)
        .await
        .unwrap();
    let (expires, signature) = query(&signed.url);
    let longer = PutTerms {
        size_bytes: 4,
        ..terms.clone()
    };
    assert!(signing.allows_put(&mine, &terms, expires, &signature, 1_000));
    assert!(!signing.allows_put(&other, &terms, expires, &signature, 1_000));
    assert!(!signing.allows_put(&mine, &longer, expires, &signature, 1_000));
    assert!(!signing.allows_get(&mine, "f", expires, &signature, 1_000));
    assert!(!Signing::new([4; 32]).allows_put(&mine, &terms, expires, &signature, 1_000));
}

#[tokio::test]
async fn a_local_upload_takes_the_very_bytes_once() {
    use blob::{PutRefusal, Received};
    let store = local();
    let Blobs::Local(folder) = &store.blobs else {
        unreachable!("it is a folder")
    };
    let key = key("w/ws_1/job_1/q/0/0");
    let terms = PutTerms {
        size_bytes: 3,
        sha256: Sha256::digest(b"abc").into(),
    };
    let body = |text: &'static [u8]| {
        futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(text))]).boxed()
    };
    let receive = async |text| folder.receive(&key, &terms, body(text)).await;
    assert!(matches!(receive(b"ab").await, Err(PutRefusal::Size)));
    assert!(matches!(receive(b"abcd").await, Err(PutRefusal::Size)));
    assert!(matches!(receive(b"abd").await, Err(PutRefusal::Checksum)));
    let broken = futures::stream::iter([
        Ok(Bytes::from_static(b"ab")),
        Err(std::io::Error::other("gone")),
    ])
    .boxed();
    let broken = folder.receive(&key, &terms, broken).await;
    assert!(matches!(broken, Err(PutRefusal::Broken(_))));
    assert!(keys(&store.blobs, "w/").await.is_empty());
    assert!(matches!(receive(b"abc").await, Ok(Received::Stored)));
    assert!(matches!(receive(b"abc").await, Ok(Received::Again)));
}
