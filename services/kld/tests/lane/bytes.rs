//! The bytes that were written are the bytes that are read.

use futures::stream;
use protocol::states::ResourceDetail;
use protocol::{Code, Role};
use tfstate::Document;

use super::documents::{Doc, LINEAGE, case, with_serial};
use super::stage::{Client, Reply, Stage};

/// A document of about so many megabytes, in instances of 64 KiB.
fn padded(serial: u64, megabytes: usize) -> Vec<u8> {
    let mut document = Doc::new(serial);
    let padding = "p".repeat(64 * 1024 - 600);
    for n in 0..megabytes * 8 {
        // Each value stands twice, as input and as output.
        document = document.with(&format!("pad{n:05}"), &padding);
    }
    document.bytes()
}

/// The same bytes without a Content-Length.
fn chunked(document: &[u8]) -> reqwest::Body {
    let pieces: Vec<_> = document
        .chunks(256 * 1024)
        .map(|piece| Ok::<_, std::io::Error>(bytes::Bytes::copy_from_slice(piece)))
        .collect();
    reqwest::Body::wrap_stream(stream::iter(pieces))
}

/// S13: on every route that takes a state.
#[tokio::test(flavor = "multi_thread")]
async fn large_states_are_taken_by_every_route_and_come_back() {
    let stage = Stage::start().await;
    let boss = stage.client(Role::Maintainer).await;
    for megabytes in [3, 30] {
        let name = format!("m{megabytes}");
        let (one, two) = (padded(1, megabytes), padded(2, megabytes));
        assert!(one.len() > megabytes * 1_000_000);
        boss.write(&name, one.clone()).await.ok();
        assert!(boss.read(&name).await.ok().body == one);
        boss.lock(&name, "chunked").await.ok();
        boss.write_under(&name, "chunked", chunked(&two)).await.ok();
        boss.unlock(&name, "chunked").await.ok();
        assert!(boss.read(&name).await.ok().body == two);
        let imported = format!("{name}/import");
        Reply::of(boss.request("POST", &imported).body(padded(3, megabytes)))
            .await
            .ok();
        boss.roll_back(&name, 1).await.ok();
        assert!(boss.read(&name).await.ok().body == padded(4, megabytes));
        assert!(boss.version(&name, 1).await == one);
    }
    // Kept beside the rows, because it is not as Terraform writes it.
    let odd = [b" ".as_slice(), &padded(1, 3)].concat();
    boss.write("odd", odd.clone()).await.ok();
    assert!(boss.read("odd").await.ok().body == odd);
}

/// S13: the largest of the case.
#[tokio::test(flavor = "multi_thread")]
async fn a_state_of_120_megabytes_comes_back() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let document = padded(1, 120);
    assert!(document.len() > 120_000_000);
    ann.write("prod", document.clone()).await.ok();
    assert!(ann.read("prod").await.ok().body == document);
}

/// S16.
#[tokio::test(flavor = "multi_thread")]
async fn marks_and_other_encodings_are_named_and_refused() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    for (file, name) in [
        ("bom-utf8.json", "byte order mark"),
        ("utf16le.json", "UTF-16"),
    ] {
        for route in ["prod", "prod/import"] {
            let problem = ann
                .write(route, case(file))
                .await
                .refused(Code::EncodingNotJson);
            assert!(
                problem["detail"].as_str().unwrap().contains(name),
                "{problem:?}"
            );
        }
    }
    assert_eq!(ann.read("prod").await.status, 404);
}

/// Writes a document, then one in which a neighbour was added, and checks both and what the second one cost.
async fn survives_a_change_beside_it(ann: &Client<'_>, name: &str, document: &[u8]) {
    ann.write_locked(name, document.to_vec()).await;
    assert!(ann.read(name).await.ok().body == document, "{name}");
    let text = String::from_utf8(document.to_vec()).unwrap();
    let start = text.find("\"resources\"").unwrap();
    let start = start + text[start..].find('[').unwrap() + 1;
    let block = r#"{"mode":"data","type":"aaa","name":"neighbour","provider":"provider[\"terraform.io/builtin/terraform\"]","instances":[{"schema_version":0,"attributes":{},"sensitive_attributes":[]}]}"#;
    let comma = if text[start..].trim_start().starts_with(']') {
        ""
    } else {
        ","
    };
    let changed = format!("{}{block}{comma}{}", &text[..start], &text[start..]);
    ann.write_locked(name, changed.clone()).await;
    assert!(
        ann.read(name).await.ok().body == changed.as_bytes(),
        "{name}"
    );
    assert!(ann.version(name, 1).await == document, "{name}");
    assert_eq!(ann.versions(name).await[1].rows_changed, 1, "{name}");
    for rest in ["resources?limit=2000", "outputs"] {
        ann.read(&format!("{name}/{rest}")).await.ok();
    }
}

/// S17, S18.
#[tokio::test(flavor = "multi_thread")]
async fn odd_bytes_stay_and_changing_a_neighbour_leaves_them_alone() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    for file in [
        "nul-and-surrogates.json",
        "odd-bytes.json",
        "keys-state.json",
        "module-provider.json",
        "last-instance.json",
    ] {
        let name = file.trim_end_matches(".json");
        survives_a_change_beside_it(&ann, name, &case(file)).await;
    }
}

/// S17, S29: whatever an index key holds, its listed address leads to exactly that instance, and never to a 500.
#[tokio::test(flavor = "multi_thread")]
async fn every_listed_address_finds_its_instance() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    for file in [
        "keys-state.json",
        "nul-and-surrogates.json",
        "module-provider.json",
        "odd-bytes.json",
    ] {
        ann.write_locked("prod", case(file)).await;
        let list = ann.read("prod/resources?limit=2000").await.ok().json();
        let list = list["resources"].as_array().unwrap();
        assert!(!list.is_empty());
        for resource in list {
            let address = resource["address"].as_str().unwrap();
            for sensitive in ["true", "false"] {
                let request = ann
                    .request("GET", "prod/resource")
                    .query(&[("address", address), ("sensitive", sensitive)]);
                let reply = Reply::of(request).await.ok();
                let found: ResourceDetail = serde_json::from_slice(&reply.body).unwrap();
                assert_eq!(found.summary.address, address);
            }
        }
        // Pages of one make the same list.
        let (mut paged, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = ann
                .read(&format!("prod/resources?limit=1{cursor}"))
                .await
                .ok()
                .json();
            paged.extend(page["resources"].as_array().unwrap().clone());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert!(paged == *list, "{file}");
    }
}

/// Parts of documents that are easily lost: lineage with escapes, unknown members, nothing at all.
#[tokio::test(flavor = "multi_thread")]
async fn bare_and_unusual_documents_come_back() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let documents = [
        r#"{"version":4}"#.to_owned(),
        "{\n  \"version\": 4,\n  \"serial\": 0,\n  \"lineage\": \"\"\n}".to_owned(),
        format!(
            "{{\"version\":4,\"serial\":3,\"lineage\":\"{LINEAGE}\\u0000\\ud800\",\"extra\":[1e400,-0]}}"
        ),
        r#"{"version":4,"VERSION":4,"Serial":2,"lineage":"a\"b","resources":null,"outputs":null}"#
            .to_owned(),
        r#"{"version":3,"serial":5,"lineage":"x","modules":[]}"#.to_owned(),
        r#"{"version":999,"serial":6}"#.to_owned(),
        format!(
            r#"{{"version":4,"serial":7,"deep":{}1{}}}"#,
            "[".repeat(5_000),
            "]".repeat(5_000)
        ),
        Doc::new(7)
            .bytes()
            .iter()
            .map(|byte| char::from(*byte))
            .collect::<String>()
            .replace('\n', "\r\n"),
    ];
    for (n, document) in documents.iter().enumerate() {
        ann.write_locked("prod", document.clone()).await;
        assert!(
            ann.read("prod").await.ok().body == document.as_bytes(),
            "{document}"
        );
        let alone = format!("alone{n}");
        ann.write(&alone, document.clone()).await.ok();
        assert!(
            ann.read(&alone).await.ok().body == document.as_bytes(),
            "{document}"
        );
    }
    for (n, document) in (1..).zip(&documents) {
        assert!(
            ann.version("prod", n).await == document.as_bytes(),
            "{document}"
        );
    }
}

/// S17: what JSON readers stumble over is shown raw or hidden, and is no reason for a 500.
#[tokio::test(flavor = "multi_thread")]
async fn odd_values_are_shown_raw_or_hidden() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let viewer = stage.client(Role::Viewer).await;
    let secret = r#"[[{"type":"get_attr","value":"s"}]]"#;
    let instances = [
        (r#"{"s":"hush","n":1e400}"#, secret),
        (r#"{"s":"hush","n":"\ud800"}"#, secret),
        (r#"{"s":"hush","\u0000":"\u0000"}"#, secret),
        (r#"{"s":"hush","s":"hush"}"#, secret),
        (r#"{"s":"hush"}"#, r#"{"not":"a list"}"#),
        (r#""hush""#, secret),
        (r#"["hush"]"#, r#"[[]]"#),
    ];
    let resources: Vec<_> = instances
        .iter()
        .enumerate()
        .map(|(n, (attributes, paths))| {
            format!(r#"{{"mode":"managed","type":"t","name":"n{n}","provider":"provider[\"x/y/z\"]","instances":[{{"attributes":{attributes},"sensitive_attributes":{paths}}}]}}"#)
        })
        .collect();
    let outputs = r#"{"a":{"value":1e400,"type":"number"},"b":{"value":"\ud800"},"c":{},"d":{"value":"hush","type":"string","sensitive":"perhaps"},"e":{"value":1,"value":2,"type":"number","sensitive":true}}"#;
    let document = format!(
        r#"{{"version":4,"serial":1,"lineage":"x","outputs":{outputs},"resources":[{}]}}"#,
        resources.join(",")
    );
    ann.write("prod", document.clone()).await.ok();
    assert!(ann.read("prod").await.ok().body == document.as_bytes());
    for n in 0..instances.len() {
        let shown = ann
            .read(&format!("prod/resource?address=t.n{n}&sensitive=true"))
            .await
            .ok();
        assert!(
            String::from_utf8_lossy(&shown.body).contains("hush"),
            "{shown:?}"
        );
        for who in [&ann, &viewer] {
            let masked = who
                .read(&format!("prod/resource?address=t.n{n}"))
                .await
                .ok();
            assert!(
                !String::from_utf8_lossy(&masked.body).contains("hush"),
                "{n}: {masked:?}"
            );
        }
    }
    for (who, sees) in [(&ann, true), (&viewer, false)] {
        let reply = who.read("prod/outputs").await.ok();
        assert_eq!(
            String::from_utf8_lossy(&reply.body).contains("hush"),
            sees,
            "{reply:?}"
        );
    }
}

/// What Terraform wrote needs no copy of its bytes; what it did not write has one.
#[tokio::test(flavor = "multi_thread")]
async fn only_what_rendering_does_not_give_is_kept() {
    let stage = Stage::start().await;
    let ann = stage.writer().await;
    let document = Doc::of_size(1, 10).bytes();
    assert!(
        matches!(tfstate::parse(&document), Ok(Document::State(state)) if state.reproduces(&document))
    );
    ann.write_locked("prod", document.clone()).await;
    assert_eq!(
        stage.count("SELECT count(*) FROM version_documents").await,
        0
    );
    ann.write_locked("prod", [document.as_slice(), b"\n"].concat())
        .await;
    assert_eq!(
        stage.count("SELECT count(*) FROM version_documents").await,
        1
    );
    // The rows are the same in both.
    assert_eq!(ann.versions("prod").await[1].rows_changed, 0);
    ann.write_locked("prod", with_serial(&document, 2)).await;
    assert_eq!(
        stage.count("SELECT count(*) FROM version_documents").await,
        1
    );
}

/// The first document that has to be sealed needs the workspace's key: also where there is only one connection to have.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_kept_document_needs_no_second_connection() {
    let setup = crate::harness::Setup {
        pool: 1,
        ..crate::harness::Setup::default()
    };
    let stage = Stage::start_with(setup).await;
    let ann = stage.writer().await;
    let replies = (0..10).map(|n| {
        let ann = ann.clone();
        async move { ann.write(&format!("s{n}"), case("odd-bytes.json")).await }
    });
    for reply in futures::future::join_all(replies).await {
        assert!(matches!(reply.status, 200 | 503), "{reply:?}");
    }
    for n in 0..10 {
        ann.write(&format!("s{n}"), case("odd-bytes.json"))
            .await
            .ok();
    }
}
