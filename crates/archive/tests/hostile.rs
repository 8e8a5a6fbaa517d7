//! Entries that want out of the archive, or cost more than they look.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails its test")]

mod support;

use std::io::Write as _;
use std::path::Path;

use archive::{ArchiveError, Policy, Rule, verify};
use support::pack::{Unpacked, compress, fix_checksum, tar_entry, tar_stream};
use support::states::{shared, small};
use support::{TestHistory, trusted};

const LIMIT: u64 = 1 << 30;

fn refusal_within(archive: &[u8], limit: u64) -> Option<Rule> {
    let trusted = trusted();
    match verify(archive, &Policy::trusting(&trusted, limit)) {
        Ok(_) => None,
        Err(ArchiveError::Refused(refusal)) => Some(refusal.rule),
        Err(other) => panic!("{other:?}"),
    }
}

fn refusal(archive: &[u8]) -> Option<Rule> {
    refusal_within(archive, LIMIT)
}

fn sample() -> TestHistory {
    TestHistory::of((1..=3).map(|serial| small(serial, 2)))
}

/// The sample's tar stream with raw blocks put before the entry of this name.
fn with_blocks(before: &str, blocks: &[u8]) -> Vec<u8> {
    let unpacked = Unpacked::of(&sample().export());
    let mut stream = Vec::new();
    for (name, content) in &unpacked.entries {
        if name == before {
            stream.extend_from_slice(blocks);
        }
        stream.extend(tar_entry(name, b'0', content));
    }
    stream.resize(stream.len() + 1024, 0);
    compress(&stream)
}

fn evil_files() -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(shared("cases/files"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with("evil-") && name.ends_with(".tar")
        })
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect();
    files.sort();
    assert!(files.len() >= 7, "evil archives are missing");
    files
}

#[test]
fn evil_archives_are_refused_as_they_are_and_recompressed() {
    for (name, bytes) in evil_files() {
        assert_eq!(refusal(&bytes), Some(Rule::NotZstd), "{name}");
        assert!(refusal(&compress(&bytes)).is_some(), "{name}");
    }
}

/// The evil entries in an otherwise sound archive, their names those of the format where they do
/// not carry the attack.
#[test]
fn evil_entries_are_refused_for_what_they_are() {
    let rules = [
        ("evil-absolute.tar", Rule::NameEscapes),
        ("evil-device.tar", Rule::EntryDevice),
        ("evil-dotdot.tar", Rule::NameEscapes),
        ("evil-dup-names.tar", Rule::EntryRepeated),
        ("evil-hardlink.tar", Rule::EntryLink),
        ("evil-symlink-dir.tar", Rule::EntryLink),
        ("evil-symlink-then-file.tar", Rule::EntryLink),
    ];
    for (file, rule) in rules {
        let (_, bytes) = evil_files()
            .into_iter()
            .find(|(name, _)| name == file)
            .unwrap();
        // The first entry is harmless: in its place stand the entries of our own first version.
        let size =
            usize::from_str_radix(std::str::from_utf8(&bytes[124..135]).unwrap(), 8).unwrap();
        let mut blocks = bytes[512 + size.next_multiple_of(512)..].to_vec();
        if let Some(end) = blocks
            .chunks(512)
            .position(|block| block.iter().all(|byte| *byte == 0))
        {
            blocks.truncate(end * 512);
        }
        if file == "evil-dup-names.tar" {
            blocks = tar_entry("versions/1.json", b'0', b"{}");
        }
        let archive = with_blocks("versions/2.json", &blocks);
        assert_eq!(refusal(&archive), Some(rule), "{file}");
    }
}

#[test]
fn nothing_but_plain_files_passes() {
    let kinds = [
        (b'1', Rule::EntryLink),
        (b'2', Rule::EntryLink),
        (b'3', Rule::EntryDevice),
        (b'4', Rule::EntryDevice),
        (b'5', Rule::EntryDirectory),
        (b'6', Rule::EntryDevice),
        (b'7', Rule::EntryType),
        (b'x', Rule::EntryPax),
        (b'g', Rule::EntryPax),
        (b'L', Rule::EntryLongName),
        (b'K', Rule::EntryLongName),
        (b'S', Rule::EntrySparse),
        (b'M', Rule::EntrySparse),
        (b'\0', Rule::EntryType),
    ];
    for (kind, rule) in kinds {
        let blocks = tar_entry("versions/2.json", kind, b"12 size=1\n");
        assert_eq!(
            refusal(&with_blocks("versions/2.json", &blocks)),
            Some(rule),
            "type {kind}"
        );
    }
}

#[test]
fn names_are_exactly_those_of_the_format() {
    let names = [
        ("../versions/2.json", Rule::NameEscapes),
        ("versions/../../2.json", Rule::NameEscapes),
        ("/versions/2.json", Rule::NameEscapes),
        ("C:/versions/2.json", Rule::NameEscapes),
        ("versions\\..\\2.json", Rule::NameEscapes),
        ("./versions/2.json", Rule::NameUnknown),
        ("versions//2.json", Rule::NameUnknown),
        ("versions/02.json", Rule::NameUnknown),
        ("versions/2.JSON", Rule::NameUnknown),
        ("states/2.json", Rule::NameUnknown),
        ("versions/2.json/", Rule::NameUnknown),
        ("ext/stowaway", Rule::EntryOrder),
        ("tags.json", Rule::EntryOrder),
        ("versions/2.delta.jsonl", Rule::EntryOrder),
        ("archive.json", Rule::EntryRepeated),
    ];
    for (name, rule) in names {
        let blocks = tar_entry(name, b'0', b"{}");
        assert_eq!(
            refusal(&with_blocks("versions/2.json", &blocks)),
            Some(rule),
            "{name}"
        );
    }
    let mut hidden = tar_entry("versions/2.json", b'0', b"{}");
    hidden[20..30].copy_from_slice(b"../escape\0");
    fix_checksum(&mut hidden[..512]);
    assert_eq!(
        refusal(&with_blocks("versions/2.json", &hidden)),
        Some(Rule::NameEscapes)
    );
}

#[test]
fn headers_have_one_spelling() {
    let change = |at: usize, text: &[u8]| {
        let mut entry = tar_entry("versions/2.json", b'0', b"{}");
        entry[at..at + text.len()].copy_from_slice(text);
        fix_checksum(&mut entry[..512]);
        refusal(&with_blocks("versions/2.json", &entry))
    };
    assert_eq!(change(100, b"0000777"), Some(Rule::TarDialect));
    assert_eq!(change(108, b"0001750"), Some(Rule::TarDialect));
    assert_eq!(change(136, b"14000000000"), Some(Rule::TarDialect));
    assert_eq!(change(257, b"ustar  \0"), Some(Rule::TarDialect));
    assert_eq!(change(265, b"root"), Some(Rule::TarDialect));
    assert_eq!(change(345, b"prefix"), Some(Rule::TarDialect));
    assert_eq!(change(500, b"x"), Some(Rule::TarDialect));
    // Sizes in base 256, with blanks, without an end, and negative.
    assert_eq!(
        change(124, b"\x80\0\0\0\0\0\0\0\0\0\0\x02"),
        Some(Rule::TarSize)
    );
    assert_eq!(change(124, b"          2\0"), Some(Rule::TarSize));
    assert_eq!(change(124, b"000000000002"), Some(Rule::TarSize));
    assert_eq!(change(124, b"-0000000002\0"), Some(Rule::TarSize));
    let mut unsummed = tar_entry("versions/2.json", b'0', b"{}");
    unsummed[148] ^= 1;
    assert_eq!(
        refusal(&with_blocks("versions/2.json", &unsummed)),
        Some(Rule::TarChecksum)
    );
    let mut padded = tar_entry("archive.json", b'0', b"{}");
    padded[600] = 1;
    assert_eq!(
        refusal(&with_blocks("archive.json", &padded)),
        Some(Rule::TarPadding)
    );
}

/// Two programs must not read two different archives out of one file.
#[test]
fn a_maintained_reader_finds_the_same_entries() {
    let archive = sample().export();
    let trusted = trusted();
    let verified = verify(&archive[..], &Policy::trusting(&trusted, LIMIT)).unwrap();
    let unpacked = Unpacked::of(&archive);
    assert_eq!(unpacked.entries.len() as u64, verified.info.entries + 1);
    assert!(unpacked.tar() == tar_stream(&archive));
    for version in &sample().versions[..1] {
        let name = format!("versions/{}.tfstate.json", version.meta.seq);
        assert!(unpacked.get(&name) == version.document);
    }
}

#[test]
fn a_bomb_stops_at_the_limit() {
    // 64 GiB of zeros in a tar entry whose header says 4 GiB: some 6 MB of file would be needed,
    // and a few hundred bytes decide it.
    let mut unpacked = Unpacked::of(&sample().export());
    unpacked.edit("archive.json", |info| info["max_bytes"] = u64::MAX.into());
    let mut stream = tar_entry("archive.json", b'0', unpacked.get("archive.json"));
    stream.extend(tar_entry(
        "versions/1.json",
        b'0',
        unpacked.get("versions/1.json"),
    ));
    let mut header = tar_entry("versions/1.tfstate.json", b'0', b"");
    header[124..135].copy_from_slice(format!("{:011o}", 4_u64 << 30).as_bytes());
    fix_checksum(&mut header);
    stream.extend(header);
    assert_eq!(refusal(&compress(&stream)), Some(Rule::OverLimit));
    // The honest size in the header, but content without end.
    let honest = u64::try_from(small(1, 2).len()).unwrap();
    assert_eq!(
        refusal_within(&compress(&stream), honest),
        Some(Rule::OverLimit)
    );
}

/// Ten gigabytes that are honestly declared, entry by entry within the limit of one: a megabyte of file.
#[test]
fn a_bomb_of_ten_gigabytes_stops_at_the_limit() {
    const ENTRY: usize = 512 << 20;
    let mut unpacked = Unpacked::of(&sample().export());
    let names: Vec<String> = (0..20).map(|index| format!("ext/{index}")).collect();
    unpacked.edit("archive.json", |info| {
        info["minor"] = 1.into();
        info["max_bytes"] = (11_u64 << 30).into();
        info["entries"] = (9 + names.len()).into();
        info["ext"] = names.clone().into();
    });
    let at = unpacked.position("manifest.json");
    let entry = |(name, content): &support::pack::Entry| tar_entry(name, b'0', content);
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.include_contentsize(false).unwrap();
    for entry in unpacked.entries[..at].iter().map(entry) {
        encoder.write_all(&entry).unwrap();
        encoder.flush().unwrap();
    }
    let zeros = vec![0; 16 << 20];
    for name in &names {
        let mut header = tar_entry(name, b'0', b"");
        header[124..135].copy_from_slice(format!("{ENTRY:011o}").as_bytes());
        fix_checksum(&mut header);
        encoder.write_all(&header).unwrap();
        for _ in 0..ENTRY / zeros.len() {
            encoder.write_all(&zeros).unwrap();
        }
    }
    for entry in unpacked.entries[at..].iter().map(entry) {
        encoder.write_all(&entry).unwrap();
    }
    let archive = support::pack::seal(encoder.finish().unwrap());
    assert!(archive.len() < 4 << 20, "{} bytes", archive.len());
    assert_eq!(refusal(&archive), Some(Rule::OverLimit));
}

#[test]
fn a_reader_may_take_fewer_versions_than_the_format() {
    let archive = sample().export();
    let trusted = trusted();
    let within = |versions| {
        let policy = Policy {
            versions,
            ..Policy::trusting(&trusted, LIMIT)
        };
        verify(&archive[..], &policy)
            .err()
            .and_then(|error| error.rule())
    };
    assert_eq!(within(3), None);
    assert_eq!(within(2), Some(Rule::TooManyVersions));
}

#[test]
fn a_bomb_that_fits_every_header_stops_at_what_it_declares() {
    // 400 MiB of blanks around a version: 13 kB compressed.
    let mut unpacked = Unpacked::of(&sample().export());
    let bomb = vec![b' '; 400 << 20];
    unpacked.edit("versions/1.json", |meta| meta["bytes"] = bomb.len().into());
    unpacked.set("versions/1.tfstate.json", bomb);
    let archive = unpacked.pack_signed();
    assert!(archive.len() < 100_000, "{} bytes", archive.len());
    assert_eq!(refusal(&archive), Some(Rule::OverDeclared));
}

#[test]
fn memory_is_bounded_before_a_document_is_read() {
    let mut unpacked = Unpacked::of(&sample().export());
    // With the window and buffers of this file, just beyond what a reader may use.
    let document = vec![b' '; 506 << 20];
    unpacked.edit("archive.json", |info| {
        info["max_bytes"] = (1_u64 << 30).into()
    });
    unpacked.edit("versions/1.json", |meta| {
        meta["bytes"] = document.len().into()
    });
    unpacked.set("versions/1.tfstate.json", document);
    assert_eq!(refusal(&unpacked.pack_signed()), Some(Rule::OverMemory));
}

#[test]
fn entries_have_a_largest_size() {
    let huge = |name: &str, bytes: usize| {
        let mut unpacked = Unpacked::of(&sample().export());
        unpacked.edit("archive.json", |info| {
            info["max_bytes"] = (1_u64 << 30).into()
        });
        unpacked.sign_anew();
        let mut content = unpacked.get(name).to_vec();
        content.resize(bytes, b' ');
        unpacked.set(name, content);
        refusal(&unpacked.pack())
    };
    for name in ["archive.json", "versions/1.json", "manifest.sig"] {
        assert_eq!(
            huge(name, (64 << 10) + 1),
            Some(Rule::EntryTooLarge),
            "{name}"
        );
    }
    for name in ["tags.json", "manifest.json"] {
        assert_eq!(
            huge(name, (16 << 20) + 1),
            Some(Rule::EntryTooLarge),
            "{name}"
        );
    }
    assert_eq!(
        huge("versions/2.delta.jsonl", (64 << 20) + 1),
        Some(Rule::EntryTooLarge)
    );
    let mut unpacked = Unpacked::of(&sample().export());
    unpacked.edit("versions/1.json", |meta| {
        meta["bytes"] = ((512_u64 << 20) + 1).into()
    });
    assert_eq!(refusal(&unpacked.pack_signed()), Some(Rule::EntryTooLarge));
}

#[test]
fn json_of_the_format_does_not_nest_deep() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for name in [
        "archive.json",
        "versions/1.json",
        "tags.json",
        "manifest.json",
    ] {
        let mut unpacked = Unpacked::of(&sample().export());
        unpacked.replace(name, "{", &format!("{{\"later\":{deep},"));
        assert_eq!(refusal(&unpacked.pack()), Some(Rule::JsonTooDeep), "{name}");
    }
    let mut unpacked = Unpacked::of(&sample().export());
    unpacked.set(
        "versions/2.delta.jsonl",
        format!("{{\"op\":\"header\",\"members\":{deep}}}\n"),
    );
    assert_eq!(refusal(&unpacked.pack_signed()), Some(Rule::JsonTooDeep));
    // A document may nest as deep as Terraform reads: it is no JSON of this format.
    let nested = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    let document =
        format!("{{\"version\": 4, \"serial\": 1, \"lineage\": \"l\", \"x\": {nested}}}");
    assert_eq!(
        refusal(&TestHistory::of([document.into_bytes(), small(2, 1)]).export()),
        None
    );
}

#[test]
fn reading_stops_when_asked() {
    let archive = TestHistory::of((1..=50).map(|serial| small(serial, 2))).export();
    let trusted = trusted();
    let asked = std::cell::Cell::new(0);
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > 20
    };
    let policy = Policy {
        stop: Some(&stop),
        ..Policy::trusting(&trusted, LIMIT)
    };
    assert!(matches!(
        verify(&archive[..], &policy),
        Err(ArchiveError::Stopped)
    ));
    assert_eq!(asked.get(), 21);
}

#[test]
fn an_unreadable_file_is_no_refusal() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is on fire"))
        }
    }
    let archive = sample().export();
    let broken = std::io::Read::chain(&archive[..200], Broken);
    let found = verify(broken, &Policy::any_origin(LIMIT));
    assert!(matches!(found, Err(ArchiveError::Read(error)) if error.to_string().contains("fire")));
    assert!(!Path::new("/escape-canary.txt").exists());
}
