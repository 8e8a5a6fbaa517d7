//! What happens to a state file on this side of the wire.

use crate::harness::case_file;
use crate::sealed::Sealed;

fn import(name: &str, contents: &[u8], code: i32) -> String {
    let sealed = Sealed::new().configured().file(name, contents);
    sealed
        .kl(&["import", "snapshot", name])
        .expect(code)
        .stderr()
}

#[test]
fn utf16_and_marks_are_converted_and_said_to_be() {
    // Unreachable: it got as far as asking for the lock.
    let stderr = import("utf16le.json", &case_file("utf16le.json"), 6);
    assert!(
        stderr.starts_with("utf16le.json: converted UTF-16 (little-endian) to UTF-8\n"),
        "{stderr}"
    );
    let stderr = import("bom.json", &case_file("bom-utf8.json"), 6);
    assert!(
        stderr.starts_with("bom.json: dropped the UTF-8 byte order mark\n"),
        "{stderr}"
    );
    let stderr = import("plain.json", &case_file("base-v4.json"), 6);
    assert!(
        stderr.starts_with("error: could not lock state `prod`\n"),
        "{stderr}"
    );
}

#[test]
fn what_is_no_state_is_refused_before_anything_is_sent() {
    for (contents, problem) in [
        (&b""[..], "the document is empty"),
        (b"[1]", "not an object"),
        (b"{\n  \"version\" 4\n}", "line 2, column"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"{\"a\":\"\xff\"}", "not UTF-8"),
    ] {
        let stderr = import("x.json", contents, 1);
        assert!(stderr.contains("could not import x.json"), "{stderr}");
        assert!(stderr.contains(problem), "{problem}: {stderr}");
    }
    let stderr = import("dup.json", &case_file("dup-address.json"), 1);
    assert!(stderr.contains("more than once"), "{stderr}");
    let stderr = import("gone.json", b"{}", 6);
    assert!(!stderr.contains("could not import"), "{stderr}");
    Sealed::new()
        .configured()
        .kl(&["import", "snapshot", "nowhere.json"])
        .expect(1)
        .says("nowhere.json");
}

#[test]
fn a_document_may_come_through_a_pipe() {
    let sealed = Sealed::new()
        .configured()
        .file("state", case_file("utf16le.json"));
    let done = sealed
        .kl_command(&["import", "snapshot", "-"])
        .stdin(std::fs::File::open(sealed.path("state")).unwrap())
        .output()
        .unwrap();
    let stderr = String::from_utf8(done.stderr).unwrap();
    assert!(
        stderr.starts_with("standard input: converted UTF-16"),
        "{stderr}"
    );
    assert_eq!(done.status.code(), Some(6));
}
