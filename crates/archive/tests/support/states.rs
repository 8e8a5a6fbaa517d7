//! Documents: those of the shared corpus, small ones made by hand, and changed ones.

use std::path::{Path, PathBuf};

use tfstate::{Header, Renderer, RowKind, State, encode_string};

use super::split;

/// A file shared by the project's tests.
///
/// # Panics
/// When it is missing: these tests must not pass by testing nothing.
pub(crate) fn shared(path: &str) -> PathBuf {
    let root = std::env::var_os("KL_SHARED_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let path = root.join(path);
    assert!(
        path.exists(),
        "{} is missing; set KL_SHARED_DIR",
        path.display()
    );
    path
}

/// Every document of the corpus that the service would take, by file name.
pub(crate) fn corpus() -> Vec<(String, Vec<u8>)> {
    let mut documents: Vec<_> = std::fs::read_dir(shared("corpus/states"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .filter(|(_, bytes)| tfstate::parse(bytes).is_ok())
        .collect();
    documents.sort();
    assert!(documents.len() > 50, "the corpus is not what it was");
    documents
}

/// A state as pieces that can be changed and rendered.
#[derive(Clone)]
pub(crate) struct Pieces {
    pub(crate) header: Header,
    pub(crate) parts: Vec<(tfstate::Digest, Vec<u8>)>,
    pub(crate) outputs: Vec<(String, String)>,
    /// Block text, kind and body.
    pub(crate) rows: Vec<(String, RowKind, String)>,
}

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

impl Pieces {
    pub(crate) fn of(state: &State<'_>) -> Self {
        Self {
            header: state.header.clone(),
            parts: state
                .parts
                .iter()
                .map(|part| (part.digest, part.body.to_vec()))
                .collect(),
            outputs: state
                .outputs
                .iter()
                .map(|output| (utf8(output.name_token), utf8(&output.body)))
                .collect(),
            rows: state
                .instances
                .iter()
                .map(|row| (utf8(&state.block(row).text), row.kind, utf8(&row.body)))
                .collect(),
        }
    }

    /// The pieces of a document, if it has any.
    pub(crate) fn read(document: &[u8]) -> Option<Self> {
        split(document).map(|state| Self::of(&state))
    }

    pub(crate) fn render(&self) -> Vec<u8> {
        let part = |digest: &tfstate::Digest| {
            self.parts
                .iter()
                .find(|(known, _)| known == digest)
                .map(|(_, body)| &body[..])
        };
        let outputs = self
            .outputs
            .iter()
            .map(|(token, body)| (token.as_bytes(), body.as_bytes()));
        let mut renderer = Renderer::new(&self.header, outputs, part).unwrap();
        let mut document = Vec::new();
        renderer.start(&mut document);
        for (block, kind, body) in &self.rows {
            renderer.instance(block.as_bytes(), *kind, body.as_bytes(), &mut document);
        }
        renderer.finish(&mut document);
        document
    }

    /// Changes the body of a row, keeping its place. Shells have none.
    pub(crate) fn change(&mut self, row: usize, mark: usize) {
        let (_, kind, body) = &mut self.rows[row];
        if *kind != RowKind::Shell {
            let member = format!("{{\n          \"changed\": {mark}");
            let rest = body.strip_prefix('{').unwrap();
            *body = if rest == "}" {
                format!("{member}\n        }}")
            } else {
                format!("{member},{rest}")
            };
        }
    }

    /// Sets an output, keeping them in order of their names.
    pub(crate) fn set_output(&mut self, name: &str, value: &str) {
        let token = utf8(&encode_string(name));
        let body = format!("{{\n      \"value\": {value},\n      \"type\": \"string\"\n    }}");
        self.outputs.retain(|(known, _)| *known != token);
        self.outputs.push((token, body));
        self.outputs.sort_by_key(|(token, _)| {
            tfstate::decode_string(token.as_bytes())
                .unwrap()
                .into_owned()
        });
    }
}

/// A small state of `rows` resources with two instances each.
pub(crate) fn small(serial: u64, rows: usize) -> Vec<u8> {
    let mut pieces = Pieces {
        header: Header::new("1.9.5", serial, "3f6f0e4f-9f0e-4f57-8d3a-2a7c0c5c1d11"),
        parts: Vec::new(),
        outputs: Vec::new(),
        rows: Vec::new(),
    };
    for row in 0..rows {
        let block = format!(
            "\"mode\": \"managed\",\n      \"type\": \"aws_thing\",\n      \"name\": \"n{row:04}\",\n      \
             \"provider\": \"provider[\\\"registry.terraform.io/hashicorp/aws\\\"]\""
        );
        for key in 0..2 {
            let body = format!(
                "{{\n          \"index_key\": {key},\n          \"schema_version\": 0,\n          \
                 \"attributes\": {{\n            \"id\": \"i-{row:04x}{key}\",\n            \
                 \"name\": \"größe \\u003c{row}\\u003e\"\n          }},\n          \
                 \"sensitive_attributes\": []\n        }}"
            );
            pieces.rows.push((block.clone(), RowKind::Current, body));
        }
    }
    pieces.set_output("id", &format!("\"o-{serial}\""));
    pieces.render()
}

/// The document with another serial.
pub(crate) fn with_serial(document: &[u8], serial: u64) -> Vec<u8> {
    tfstate::with_serial(document, serial).unwrap_or_else(|| document.to_vec())
}

/// A history that begins and ends with `document` and changes it in between in every way a state
/// changes: rows changed, removed, added in front, in the middle and at the end, outputs, check
/// results.
pub(crate) fn changed_in_every_way(document: &[u8]) -> Vec<Vec<u8>> {
    let mut documents = vec![document.to_vec()];
    let Some(start) = Pieces::read(document) else {
        documents.push(small(1, 2));
        documents.push(document.to_vec());
        return documents;
    };
    let mut pieces = start.clone();
    let mut serial = 1000;
    let mut push = |documents: &mut Vec<Vec<u8>>, pieces: &Pieces| {
        serial += 1;
        let mut numbered = pieces.clone();
        numbered.header = pieces.header.with_serial(serial);
        documents.push(numbered.render());
    };
    push(&mut documents, &pieces);
    let count = pieces.rows.len();
    for row in (0..count).step_by(3) {
        pieces.change(row, row);
    }
    push(&mut documents, &pieces);
    pieces.set_output("zz_new", "\"added \\u003c\\n\\\"\"");
    push(&mut documents, &pieces);
    for keep in [
        |row: usize| row != 0,
        |row: usize| !row.is_multiple_of(2),
        |_| false,
    ] {
        let mut row = 0;
        pieces.rows.retain(|_| {
            row += 1;
            keep(row - 1)
        });
        push(&mut documents, &pieces);
    }
    pieces.outputs.clear();
    pieces.rows = start.rows.iter().step_by(2).cloned().collect();
    push(&mut documents, &pieces);
    pieces.rows.clone_from(&start.rows);
    push(&mut documents, &pieces);
    pieces.outputs.clone_from(&start.outputs);
    if count > 0 {
        pieces.change(count - 1, 7);
    }
    push(&mut documents, &pieces);
    documents.push(document.to_vec());
    documents
}
