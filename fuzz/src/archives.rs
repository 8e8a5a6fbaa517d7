//! Properties of reading archives that hold for any bytes: nothing panics, nothing takes more than
//! its limits, and what is accepted is consistent.

use std::sync::LazyLock;

use archive::{Policy, Verified, extract_all, verify};

use crate::support::pack::{Unpacked, compress};
use crate::support::states::small;
use crate::support::{DigestSink, TestHistory};

/// Far more than any seed needs.
const LIMIT: u64 = 8 << 20;

/// The bytes as a file. Behind compression and seal little is reached: see [`stream`].
pub fn file(data: &[u8]) {
    let policy = Policy::any_origin(LIMIT);
    if let Ok(verified) = verify(data, &policy) {
        is_consistent(data, &verified, &policy);
    }
}

/// The bytes as the tar stream of a file.
pub fn stream(data: &[u8]) {
    file(&compress(data));
}

/// The bytes as one entry of an otherwise sound archive, whose manifest and signature fit. The
/// first byte says which entry.
pub fn entry(data: &[u8]) {
    let Some((which, content)) = data.split_first() else {
        return;
    };
    let mut unpacked = SEED.clone();
    let which = usize::from(*which) % unpacked.entries.len();
    unpacked.entries[which].1 = content.to_vec();
    let name = unpacked.entries[which].0.clone();
    let archive = match &*name {
        "manifest.sig" => unpacked.pack(),
        "manifest.json" => {
            unpacked.sign_with(&[7; 32]);
            unpacked.pack()
        }
        _ => unpacked.pack_signed(),
    };
    file(&archive);
}

/// An archive that has everything an archive can have.
pub static SEED: LazyLock<Unpacked> = LazyLock::new(|| {
    let documents = crate::support::states::changed_in_every_way(&small(1, 2));
    let mut history = TestHistory::of(documents[..5].iter().cloned());
    history.push(
        9,
        b"{\"version\": 4, \"serial\": 9, \"resources\": []}".to_vec(),
    );
    history.push(12, small(10, 1));
    Unpacked::of(&history.tag("prod", 1).run("run_1", &[2]).export())
});

fn is_consistent(data: &[u8], verified: &Verified, policy: &Policy<'_>) {
    let mut expected = verified.versions.iter();
    let found = extract_all(data, verified, policy, |entry| {
        let version = expected.next().expect("as many versions as before");
        assert_eq!(version.meta.seq, entry.meta.seq);
        Ok(DigestSink::expecting(entry.meta.bytes, entry.meta.sha256))
    });
    assert_eq!(
        found.expect("what was verified can be read"),
        verified.counts.versions
    );
}
