//! Who signed an archive, and whose word is taken.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails its test")]

mod support;

use archive::{ArchiveError, Origin, OriginRule, Policy, PublicKey, Rule, Signer, verify};
use support::TestHistory;
use support::pack::Unpacked;
use support::states::small;

const LIMIT: u64 = 1 << 30;

fn verified(archive: &[u8], rule: OriginRule, trusted: &[PublicKey]) -> Result<Origin, Rule> {
    let policy = Policy {
        origin: rule,
        ..Policy::trusting(trusted, LIMIT)
    };
    match verify(archive, &policy) {
        Ok(verified) => Ok(verified.origin),
        Err(ArchiveError::Refused(refusal)) => Err(refusal.rule),
        Err(other) => panic!("{other:?}"),
    }
}

fn history() -> TestHistory {
    TestHistory::of((1..=3).map(|serial| small(serial, 2)))
}

#[test]
fn only_trusted_keys_pass_where_trust_is_demanded() {
    let (ours, theirs) = (Signer::from_seed(&[1; 32]), Signer::from_seed(&[2; 32]));
    let trusted = [theirs.public_key(), ours.public_key()];
    let archive = history().export_signed(Some(&ours)).sink;
    let key_id = ours.public_key().id();
    for rule in [OriginRule::Any, OriginRule::Signed, OriginRule::Trusted] {
        let origin = verified(&archive, rule, &trusted);
        assert_eq!(
            origin,
            Ok(Origin::Trusted {
                key_id: key_id.clone()
            })
        );
    }
    let foreign = Origin::Foreign {
        key_id,
        public_key: ours.public_key().to_base64(),
    };
    assert_eq!(
        verified(&archive, OriginRule::Trusted, &trusted[..1]),
        Err(Rule::SignatureForeign)
    );
    assert_eq!(
        verified(&archive, OriginRule::Signed, &trusted[..1]),
        Ok(foreign)
    );
}

#[test]
fn an_unsigned_archive_passes_only_where_any_does() {
    let archive = history().export_signed(None).sink;
    assert_eq!(
        verified(&archive, OriginRule::Any, &[]),
        Ok(Origin::Unsigned)
    );
    assert_eq!(
        verified(&archive, OriginRule::Signed, &[]),
        Err(Rule::SignatureMissing)
    );
    assert_eq!(
        verified(&archive, OriginRule::Trusted, &[]),
        Err(Rule::SignatureMissing)
    );
}

#[test]
fn a_wrong_signature_passes_nowhere() {
    let signed = Unpacked::of(&history().export());
    let wrong = |change: fn(&mut Unpacked)| {
        let mut unpacked = signed.clone();
        change(&mut unpacked);
        verified(&unpacked.pack(), OriginRule::Any, &support::trusted())
    };
    // Signed by our key, but another manifest.
    let other = wrong(|archive| {
        let text = String::from_utf8(archive.get("manifest.json").to_vec()).unwrap();
        archive.set("manifest.json", text + " ");
    });
    assert_eq!(other, Err(Rule::SignatureInvalid));
    // Someone else's signature under our key.
    let forged = wrong(|archive| {
        let ours: serde_json::Value = serde_json::from_slice(archive.get("manifest.sig")).unwrap();
        archive.sign_with(&[9; 32]);
        archive.edit("manifest.sig", |signature| {
            signature["key_id"] = ours["key_id"].clone();
            signature["public_key"] = ours["public_key"].clone();
        });
    });
    assert_eq!(forged, Err(Rule::SignatureInvalid));
    for (member, value) in [
        ("algorithm", "rsa"),
        ("key_id", "0000000000000000"),
        ("public_key", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
        ("public_key", "AQID"),
        ("signature", "AQID"),
        ("signature", "?"),
        ("more", "x"),
    ] {
        let mut unpacked = signed.clone();
        unpacked.edit("manifest.sig", |signature| signature[member] = value.into());
        let found = verified(&unpacked.pack(), OriginRule::Any, &[]);
        assert_eq!(found, Err(Rule::SignatureFormat), "{member} = {value}");
    }
    assert_eq!(
        wrong(|archive| archive.set("manifest.sig", "")),
        Err(Rule::SignatureFormat)
    );
}

#[test]
fn the_weakest_key_is_no_key() {
    // The neutral element: it would verify the same signature for every message.
    let weak = format!("AQ{}=", "A".repeat(41));
    assert_eq!(PublicKey::from_base64(&weak), None);
    let key = Signer::from_seed(&[3; 32]).public_key();
    assert_eq!(PublicKey::from_base64(&key.to_base64()), Some(key));
}
