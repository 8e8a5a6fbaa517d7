//! Exit codes and error texts for what can be brought about without a Kilolock server.

use crate::peer::{Peer, answer};
use crate::sealed::Sealed;

#[test]
fn wrong_usage_is_2() {
    let sealed = Sealed::new();
    for arguments in [
        &["no-such-command"][..],
        &["status", "--no-such-flag"],
        &["status"],
        &["status", "not/a/state/name"],
        &["show"],
        &["pull", "--json", "prod"],
        &["env", "set"],
        &["token", "create", "--expires", "400d"],
        &["token", "create", "--expires", "90s"],
        &["config", "--chdir", "nowhere"],
    ] {
        let done = sealed.kl(arguments).expect(2);
        assert_eq!(done.stdout(), "", "{arguments:?}");
        assert!(done.stderr().starts_with("error: "), "{done:?}");
    }
}

#[test]
fn unreachable_is_6_with_cause_and_hint() {
    let done = Sealed::new().configured().kl(&["status"]).expect(6);
    assert_eq!(
        done.stderr(),
        "error: could not read state `prod`\n  \
           because: could not reach http://127.0.0.1:1: Connection refused (os error 111)\n\
         hint: run `kl config` to see where the address comes from\n"
    );
}

#[test]
fn a_proxy_that_answers_for_the_server_is_told_apart_from_it() {
    let gateway = answer(
        "502 Bad Gateway",
        "content-type: text/html\r\n",
        "<h1>502</h1>",
    );
    let peer = Peer::answering(&[gateway.as_str(); 4]);
    Sealed::new()
        .kl(&["whoami", "--state-url", &peer.state_url()])
        .expect(6)
        .says("502 Bad Gateway, and not in the form Kilolock uses");
    assert_eq!(peer.seen().len(), 4);

    let peer = Peer::answering(&[&answer("404 Not Found", "", "<h1>nginx</h1>")]);
    Sealed::new()
        .kl(&["whoami", "--state-url", &peer.state_url()])
        .expect(1);

    let peer = Peer::answering(&[&answer("200 OK", "", "<h1>welcome</h1>")]);
    Sealed::new()
        .kl(&["whoami", "--state-url", &peer.state_url()])
        .expect(1)
        .says("is not what this version of kl expects");
}

#[test]
fn a_busy_server_is_asked_again_when_it_says_so() {
    let busy = answer("503 Service Unavailable", "retry-after: 0\r\n", "");
    let peer = Peer::answering(&[&busy, &busy, &answer("401 Unauthorized", "", "")]);
    Sealed::new()
        .kl(&["whoami", "--state-url", &peer.state_url()])
        .expect(5);
    assert_eq!(peer.seen().len(), 3);

    let later = answer("503 Service Unavailable", "retry-after: 3600\r\n", "");
    let peer = Peer::answering(&[&later]);
    Sealed::new()
        .kl(&["whoami", "--state-url", &peer.state_url()])
        .expect(6);
}

#[test]
fn a_redirect_is_not_followed_and_the_token_stays_here() {
    let elsewhere = Peer::answering(&[&answer("200 OK", "", "{}")]);
    let moved = format!("location: {}\r\n", elsewhere.state_url());
    let peer = Peer::answering(&[&answer("302 Found", &moved, "")]);
    Sealed::new()
        .variable("KL_TOKEN", "klp_mellon")
        .kl(&["whoami", "--state-url", &peer.state_url()])
        .expect(1)
        .says("302 Found");
    assert!(peer.seen()[0].contains("klp_mellon"));
    assert!(elsewhere.seen().is_empty());
}

#[test]
fn requests_say_which_kl_sent_them() {
    let peer = Peer::answering(&[&answer("401 Unauthorized", "", "")]);
    Sealed::new()
        .kl(&["whoami", "--state-url", &peer.state_url()])
        .expect(5);
    let agent = format!("user-agent: kl/{}", env!("CARGO_PKG_VERSION"));
    assert!(peer.seen()[0].contains(&agent), "{:?}", peer.seen());
}

#[test]
fn a_token_that_cannot_be_fetched_says_where_it_was_to_come_from() {
    let with = |auth: &str| {
        Sealed::new()
            .file(
                ".kl.toml",
                format!("state_url = \"{}\"\n[auth]\n{auth}\n", crate::sealed::URL),
            )
            .kl(&["whoami"])
    };
    with("token_env = \"NOT_SET\"")
        .expect(2)
        .says("NOT_SET that .kl.toml:3 names is not set");
    with("token_file = \"nowhere\"")
        .expect(2)
        .says("no token from .kl.toml:3");
    with("token_command = [\"false\"]")
        .expect(5)
        .says("`false` ended with");
    with("token_command = [\"echo\", \"klp_x\"]").expect(6);
}
