//! Archives taken apart and put together again, right or wrong. Written from the format's
//! description and without the crate's own code for it.

use std::io::{Cursor, Read, Write};

use base64::Engine as _;
use ed25519_dalek::{Signer as _, SigningKey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Name and content of an entry.
pub(crate) type Entry = (String, Vec<u8>);

/// An archive with its entries at hand.
#[derive(Clone)]
pub(crate) struct Unpacked {
    pub(crate) entries: Vec<Entry>,
}

/// The tar stream of an archive.
pub(crate) fn tar_stream(archive: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    zstd::stream::read::Decoder::new(archive)
        .unwrap()
        .read_to_end(&mut stream)
        .unwrap();
    stream
}

/// Compresses and seals a tar stream. A small window keeps tests fast.
pub(crate) fn compress(stream: &[u8]) -> Vec<u8> {
    compress_with(stream, 17)
}

pub(crate) fn compress_with(stream: &[u8], window_log: u32) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.include_contentsize(false).unwrap();
    encoder
        .set_parameter(zstd::zstd_safe::CParameter::WindowLog(window_log))
        .unwrap();
    // Written in two steps, so that the encoder cannot know the size beforehand.
    let (first, rest) = stream.split_at(stream.len().min(1));
    encoder.write_all(first).unwrap();
    encoder.flush().unwrap();
    encoder.write_all(rest).unwrap();
    seal(encoder.finish().unwrap())
}

/// Adds the seal.
pub(crate) fn seal(mut frame: Vec<u8>) -> Vec<u8> {
    let digest = Sha256::digest(&frame);
    frame.extend_from_slice(&0x184d_2a5b_u32.to_le_bytes());
    frame.extend_from_slice(&40_u32.to_le_bytes());
    frame.extend_from_slice(b"klseal1\n");
    frame.extend_from_slice(&digest);
    frame
}

/// Puts the right checksum into a header.
pub(crate) fn fix_checksum(header: &mut [u8]) {
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// A header with content and padding.
pub(crate) fn tar_entry(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut entry = vec![0; 512];
    let mut put =
        |at: usize, text: &str| entry[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644\x000000000\x000000000\0");
    put(124, &format!("{:011o}\x0000000000000\0", content.len()));
    put(257, "ustar\x0000");
    put(329, "0000000\x000000000\0");
    entry[156] = kind;
    fix_checksum(&mut entry);
    entry.extend_from_slice(content);
    entry.resize(entry.len().next_multiple_of(512), 0);
    entry
}

impl Unpacked {
    /// Takes an archive apart with the `tar` crate.
    pub(crate) fn of(archive: &[u8]) -> Self {
        let stream = tar_stream(archive);
        let mut tar = tar::Archive::new(Cursor::new(stream));
        let entries = tar
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let name = entry.path().unwrap().to_str().unwrap().to_owned();
                let mut content = Vec::new();
                entry.read_to_end(&mut content).unwrap();
                (name, content)
            })
            .collect();
        Self { entries }
    }

    pub(crate) fn position(&self, name: &str) -> usize {
        let found = self.entries.iter().position(|(entry, _)| entry == name);
        found.unwrap_or_else(|| panic!("no entry {name}"))
    }

    pub(crate) fn get(&self, name: &str) -> &[u8] {
        &self.entries[self.position(name)].1
    }

    pub(crate) fn remove(&mut self, name: &str) -> Entry {
        let at = self.position(name);
        self.entries.remove(at)
    }

    /// Puts an entry before another.
    pub(crate) fn insert_before(&mut self, before: &str, name: &str, content: &[u8]) {
        let at = self.position(before);
        self.entries.insert(at, (name.to_owned(), content.to_vec()));
    }

    pub(crate) fn set(&mut self, name: &str, content: impl Into<Vec<u8>>) {
        let at = self.position(name);
        self.entries[at].1 = content.into();
    }

    /// Changes a JSON entry.
    pub(crate) fn edit(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut value: Value = serde_json::from_slice(self.get(name)).unwrap();
        change(&mut value);
        self.set(name, serde_json::to_vec(&value).unwrap());
    }

    /// Changes a text entry.
    pub(crate) fn replace(&mut self, name: &str, from: &str, to: &str) {
        let text = String::from_utf8(self.get(name).to_vec()).unwrap();
        assert!(text.contains(from), "{name} has no {from:?}: {text}");
        self.set(name, text.replacen(from, to, 1));
    }

    pub(crate) fn tar(&self) -> Vec<u8> {
        let mut stream = Vec::new();
        for (name, content) in &self.entries {
            stream.extend(tar_entry(name, b'0', content));
        }
        stream.resize(stream.len() + 1024, 0);
        stream
    }

    /// The archive of these entries as they are.
    pub(crate) fn pack(&self) -> Vec<u8> {
        compress(&self.tar())
    }

    /// The archive with a manifest that lists the entries as they are now, signed anew: what
    /// someone could make who has the key.
    pub(crate) fn pack_signed(mut self) -> Vec<u8> {
        self.sign_anew();
        self.pack()
    }

    pub(crate) fn sign_anew(&mut self) {
        let at = self.position("manifest.json");
        let mut manifest: Value = serde_json::from_slice(&self.entries[at].1).unwrap();
        let hex = |bytes: &[u8]| -> String {
            Sha256::digest(bytes)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect()
        };
        manifest["entries"] = self.entries[..at]
            .iter()
            .map(|(name, content)| json!({"name": name, "bytes": content.len(), "sha256": hex(content)}))
            .collect();
        self.entries[at].1 = serde_json::to_vec(&manifest).unwrap();
        self.sign_with(&[7; 32]);
    }

    /// Signs the manifest as it is.
    pub(crate) fn sign_with(&mut self, seed: &[u8; 32]) {
        let key = SigningKey::from_bytes(seed);
        let public = key.verifying_key();
        let id: String = Sha256::digest(public.as_bytes())[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let base64 = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
        let signature = json!({
            "algorithm": "ed25519",
            "key_id": id,
            "public_key": base64(public.as_bytes()),
            "signature": base64(&key.sign(self.get("manifest.json")).to_bytes()),
        });
        self.set("manifest.sig", serde_json::to_vec(&signature).unwrap());
    }
}
