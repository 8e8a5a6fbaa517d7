//! Where tokens are found in a request, and what becomes of requests without a good one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol::{Code, Role};
use reqwest::StatusCode;
use reqwest::header::AUTHORIZATION;

use crate::harness::{Expect as _, TestApp};

#[tokio::test]
async fn a_token_is_taken_from_every_place_that_clients_put_it() {
    let app = TestApp::start().await;
    let token = app.workspace("acme").await.token;
    let basic = |pair: String| format!("Basic {}", STANDARD.encode(pair));
    for header in [
        format!("Bearer {token}"),
        format!("bearer {token}"),
        format!("Bearer  {token}"),
        basic(format!("first.last+ci@ex.org:{token}")),
        basic(format!(":{token}")),
        basic(format!("{token}:")),
    ] {
        let response = app
            .request("GET", "/v1/whoami")
            .header(AUTHORIZATION, &header);
        assert_eq!(
            response.send().await.unwrap().status(),
            StatusCode::OK,
            "{header}"
        );
    }
}

#[tokio::test]
async fn bad_credentials_get_one_401_that_names_no_reason_and_repeats_nothing() {
    let app = TestApp::start().await;
    let workspace = app.workspace("acme").await;
    let member = workspace.member(Role::Viewer, None).await;
    let revoked = workspace.token_of(&member).await;
    let revoke = format!("/tokens/{}", revoked.token.token_id);
    workspace.request("DELETE", &revoke).send().await.unwrap();
    let expired = workspace.token(Role::Viewer, None).await;
    sqlx::query("UPDATE credentials SET expires_at = now() WHERE token_id = $1")
        .bind(&expired[4..16])
        .execute(app.database.owner())
        .await
        .unwrap();
    let unknown = auth::Token::generate(auth::TokenKind::Person, &mut rand::rng());
    let mut wrong_secret = workspace.token.clone().into_bytes();
    wrong_secret[20] ^= 1;

    let basic = |pair: &[u8]| format!("Basic {}", STANDARD.encode(pair));
    let mut answers = Vec::new();
    for header in [
        basic("first.last+ci@ex.org:p%25:a#b~c é€ \"q\"".as_bytes()),
        basic(&[b'u', b':', 0xff]),
        "Basic !!!".to_owned(),
        "Basic".to_owned(),
        "Bearer".to_owned(),
        "Negotiate abc".to_owned(),
        format!("Bearer {}", String::from_utf8_lossy(&wrong_secret)),
        format!("Bearer {}", unknown.expose()),
        format!("Bearer {}", revoked.secret.unwrap()),
        format!("Bearer {expired}"),
        format!("Bearer {}", "x".repeat(64 * 1024)),
    ] {
        let request = app
            .request("GET", "/v1/whoami")
            .header(AUTHORIZATION, &header);
        let response = request.send().await.unwrap();
        let challenges = response
            .headers()
            .get_all("www-authenticate")
            .iter()
            .count();
        assert_eq!(challenges, 2, "{header}");
        let mut problem = response.refused(Code::Unauthenticated).await;
        problem["request_id"].take();
        answers.push(problem);
    }
    let none = app.request("GET", "/v1/whoami").send().await.unwrap();
    let mut none = none.refused(Code::Unauthenticated).await;
    none["request_id"].take();
    assert!(answers.iter().all(|answer| *answer == none), "{answers:?}");
}

#[tokio::test]
async fn two_authorization_headers_are_one_too_many() {
    let app = TestApp::start().await;
    let request = app.request("GET", "/v1/whoami");
    let request = request
        .bearer_auth(&app.operator)
        .bearer_auth(&app.operator);
    request
        .send()
        .await
        .unwrap()
        .refused(Code::Unauthenticated)
        .await;
}

#[tokio::test]
async fn a_token_in_the_address_is_refused_even_beside_a_good_login() {
    let app = TestApp::start().await;
    let token = app.workspace("acme").await.token;
    for query in [
        format!("token={token}"),
        format!("ID={}", token.replace('_', "%5F")),
    ] {
        for path in ["/v1/whoami", "/healthz"] {
            let request = app
                .request("GET", &format!("{path}?{query}"))
                .bearer_auth(&token);
            let response = request.send().await.unwrap();
            let problem = response.refused(Code::TokenInQuery).await;
            assert!(!problem.to_string().contains(&token[16..]), "{problem}");
        }
    }
}

#[tokio::test]
async fn a_bad_token_is_refused_before_the_body_is_read() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let app = TestApp::start().await;
    let mut stream = tokio::net::TcpStream::connect(app.replicas[0].address)
        .await
        .unwrap();
    let head = "POST /v1/workspaces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer bad\r\n\
                Content-Type: application/json\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 64];
    let length = stream.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]);
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}
