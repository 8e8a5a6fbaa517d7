//! Real and hand-made state documents: what Terraform accepts is read, what it wrote is
//! reproduced without a copy.

mod support;

use support::{shared, state};
use tfstate::{Document, Refusal, RowKind, parse};

/// The corpus: name, bytes, and what INDEX.md says real Terraform thinks of it.
fn corpus() -> Vec<(String, Vec<u8>, bool)> {
    let folder = shared("corpus/states");
    let index = std::fs::read_to_string(folder.join("INDEX.md")).expect("INDEX.md is readable");
    let mut files = Vec::new();
    for line in index.lines().filter(|line| line.starts_with("| ")) {
        let name = line[2..].split(' ').next().unwrap();
        if name.ends_with(".tfstate") {
            let bytes = std::fs::read(folder.join(name)).expect("the indexed file exists");
            files.push((name.to_owned(), bytes, line.contains("| accepted")));
        }
    }
    assert!(files.len() > 80, "the index lists the corpus");
    files
}

#[test]
fn whatever_terraform_accepts_is_read() {
    let mut report = String::new();
    for (name, bytes, accepted) in corpus() {
        let verdict = match parse(&bytes) {
            Ok(Document::State(s)) => format!(
                "rows {} reproduces {}",
                s.instances.len(),
                s.reproduces(&bytes)
            ),
            Ok(Document::Opaque(o)) => format!("{:?}", o),
            Err(refusal) => format!("refused {refusal}"),
        };
        report += &format!("{name} {accepted} {verdict}\n");
    }
    println!("{report}");
}
