//! Interprets the blocks of a file: what each declares, and what it points at.

use super::{
    Lines,
    collect::Reading,
    parts, providers,
    raw::{RawBlock, RawBody, RawExpr},
    target,
};
use crate::{
    address::Mode,
    facts::{
        CallFacts, CallSource, Fault, FileFacts, Item, ItemKind, LocalFacts, OutputFacts,
        ProviderFacts, ProviderName, Repetition, ResourceFacts, VariableFacts,
    },
    reference::References,
};

/// Every block type of the language, with the number of its labels. Others are strange: a newer
/// client may know them, and what it would do with them is not known here.
const BLOCKS: &[(&str, usize)] = &[
    ("action", 2),
    ("check", 1),
    ("data", 2),
    ("ephemeral", 2),
    ("import", 0),
    ("locals", 0),
    ("module", 1),
    ("moved", 0),
    ("output", 1),
    ("provider", 1),
    ("removed", 0),
    ("resource", 2),
    ("terraform", 0),
    ("variable", 1),
];

struct Decoder<'d> {
    reading: &'d Reading<'d>,
    lines: &'d Lines,
    facts: FileFacts,
}

pub(super) fn decode(body: RawBody<'_>, reading: &Reading<'_>, lines: &Lines) -> FileFacts {
    let mut decoder = Decoder {
        reading,
        lines,
        facts: FileFacts::default(),
    };
    for (keyword, labels) in BLOCKS {
        let mut misshapen = Vec::new();
        for block in body.blocks(keyword, *labels, &mut misshapen) {
            decoder.block(keyword, &block);
        }
        for offset in misshapen {
            decoder.strange(offset, format!("a `{keyword}` block of an unknown shape"));
        }
    }
    decoder.leftovers(body);
    decoder.facts.items.sort_by_key(|item| item.line);
    decoder.facts
}

impl Decoder<'_> {
    fn strange(&mut self, offset: usize, what: impl Into<String>) {
        let fault = Fault {
            line: self.lines.at(offset),
            what: what.into(),
        };
        self.facts.strange.push(fault);
    }

    fn item(&mut self, offset: usize, kind: ItemKind) {
        self.facts.items.push(Item {
            line: self.lines.at(offset),
            kind,
        });
    }

    /// Reports what stands at the top level and is no block of the language.
    fn leftovers(&mut self, body: RawBody<'_>) {
        let known = |name: &str| BLOCKS.iter().any(|(keyword, _)| *keyword == name);
        let unknown: Vec<(usize, String)> = match body {
            RawBody::Hcl(body) => {
                use hcl_edit::{Span as _, structure::Structure};
                let name = |structure: &Structure| match structure {
                    Structure::Attribute(attribute) => Some(attribute.key.as_str().to_owned()),
                    Structure::Block(block) => {
                        Some(block.ident.as_str().to_owned()).filter(|name| !known(name))
                    }
                };
                body.iter()
                    .filter_map(|structure| {
                        Some((
                            structure.span().map_or(0, |span| span.start),
                            name(structure)?,
                        ))
                    })
                    .collect()
            }
            RawBody::Json(json) => {
                let members = json.members().iter();
                let unknown = members.filter(|(name, _)| name != "//" && !known(name));
                unknown
                    .map(|(name, value)| (value.offset, name.to_string()))
                    .collect()
            }
        };
        for (offset, name) in unknown {
            self.strange(offset, format!("`{name}` is no known block"));
        }
    }

    fn block(&mut self, keyword: &str, block: &RawBlock<'_>) {
        let body = block.body;
        match (keyword, block.labels.as_slice()) {
            ("resource", [kind, name]) => self.resource(Mode::Managed, kind, name, block),
            ("data", [kind, name]) => self.resource(Mode::Data, kind, name, block),
            ("ephemeral", [kind, name]) => self.resource(Mode::Ephemeral, kind, name, block),
            ("module", [name]) => self.module(name, block),
            ("locals", _) => self.locals(body),
            ("variable", [name]) => {
                let flag = |name| body.attribute(name).and_then(RawExpr::bool) == Some(true);
                let variable = VariableFacts {
                    name: (*name).to_owned(),
                    has_default: body.attribute("default").is_some(),
                    sensitive: flag("sensitive"),
                    ephemeral: flag("ephemeral"),
                    validation: self.nested_references(body, "validation"),
                };
                self.item(block.offset, ItemKind::Variable(variable));
            }
            ("output", [name]) => {
                let flag = |name| body.attribute(name).and_then(RawExpr::bool) == Some(true);
                let output = OutputFacts {
                    name: (*name).to_owned(),
                    sensitive: flag("sensitive"),
                    ephemeral: flag("ephemeral"),
                    body: parts::of(self.reading, body, &["description", "deprecated"]),
                };
                self.item(block.offset, ItemKind::Output(output));
            }
            ("provider", [local]) => {
                let alias = body.attribute("alias").and_then(RawExpr::text);
                let name = ProviderName {
                    local: (*local).to_owned(),
                    alias: alias.map(str::to_owned),
                };
                let body = parts::of(self.reading, body, &["alias", "version"]);
                self.item(
                    block.offset,
                    ItemKind::Provider(ProviderFacts { name, body }),
                );
            }
            ("check", [name]) => self.check(name, block),
            ("action", [kind, name]) => {
                let (kind, name) = ((*kind).to_owned(), (*name).to_owned());
                let body = parts::of(self.reading, body, &["provider"]);
                self.item(block.offset, ItemKind::Action { kind, name, body });
            }
            ("terraform", _) => self.settings(block),
            _ => self.movement(keyword, block),
        }
    }

    /// The data source in a check is one of the module; the check itself only refers to things.
    fn check(&mut self, name: &str, block: &RawBlock<'_>) {
        let mut misshapen = Vec::new();
        for nested in block.body.blocks("data", 2, &mut misshapen) {
            if let [kind, name] = nested.labels.as_slice() {
                self.resource(Mode::Data, kind, name, &nested);
            }
        }
        for offset in misshapen {
            self.strange(
                offset,
                format!("a data source of an unknown shape in check {name}"),
            );
        }
        let mut references = References::new();
        self.reading.collect_body(block.body, &mut references);
        let name = name.to_owned();
        self.item(block.offset, ItemKind::Check { name, references });
    }

    /// `moved`, `removed` and `import`: blocks about where objects are recorded.
    fn movement(&mut self, keyword: &str, block: &RawBlock<'_>) {
        let named = |name| {
            block
                .body
                .attribute(name)
                .and_then(RawExpr::path)
                .and_then(|path| target::of(&path))
        };
        let kind = match keyword {
            "moved" => named("from")
                .zip(named("to"))
                .map(|(from, to)| ItemKind::Moved { from, to }),
            "removed" => {
                let mut misshapen = Vec::new();
                let lifecycle = block.body.blocks("lifecycle", 0, &mut misshapen);
                let destroy = lifecycle
                    .iter()
                    .find_map(|block| block.body.attribute("destroy"));
                // Without a lifecycle block the object is destroyed.
                let destroy = destroy.and_then(RawExpr::bool).unwrap_or(true);
                named("from").map(|from| ItemKind::Removed { from, destroy })
            }
            _ => named("to").map(|to| {
                let references = parts::of(self.reading, block.body, &["to", "provider"]);
                let mut references: References = references.references().cloned().collect();
                // The keys of `to` may be computed from anything.
                if let Some(to) = block.body.attribute("to") {
                    self.reading.collect_names(to, &mut references);
                }
                ItemKind::Import { to, references }
            }),
        };
        match kind {
            Some(kind) => self.item(block.offset, kind),
            None => self.strange(
                block.offset,
                format!("a `{keyword}` block that names no object"),
            ),
        }
    }

    fn resource(&mut self, mode: Mode, kind: &str, name: &str, block: &RawBlock<'_>) {
        let body = parts::of(self.reading, block.body, &["provider"]);
        let provider = block.body.attribute("provider");
        let mut resource = ResourceFacts {
            mode,
            kind: kind.to_owned(),
            name: name.to_owned(),
            repetition: repetition(block.body),
            provider: None,
            body,
        };
        if let Some(provider) = provider {
            resource.provider = providers::name(provider);
            if resource.provider.is_none() {
                self.strange(
                    block.offset,
                    format!("the provider of {kind}.{name} is computed"),
                );
            }
            providers::collect_keys(self.reading, provider, &mut resource.body);
        }
        self.item(block.offset, ItemKind::Resource(resource));
    }

    fn module(&mut self, name: &str, block: &RawBlock<'_>) {
        let source = block
            .body
            .attribute("source")
            .map(|source| match source.text() {
                Some(text) => CallSource::Literal(text.to_owned()),
                None => CallSource::Computed,
            });
        let mut body = parts::of(self.reading, block.body, &["version", "providers"]);
        let providers = block.body.attribute("providers").map(|given| {
            providers::pairs(self.reading, given, &mut body).unwrap_or_else(|| {
                self.strange(
                    block.offset,
                    format!("the providers of module.{name} are computed"),
                );
                Vec::new()
            })
        });
        let call = CallFacts {
            name: name.to_owned(),
            source,
            repetition: repetition(block.body),
            providers,
            body,
        };
        self.item(block.offset, ItemKind::Module(call));
    }

    fn locals(&mut self, body: RawBody<'_>) {
        let locals: Vec<(usize, String, RawExpr<'_>)> = match body {
            RawBody::Hcl(body) => {
                use hcl_edit::Span as _;
                let attributes = body.attributes();
                let local = attributes.map(|local| {
                    let offset = local.span().map_or(0, |span| span.start);
                    (
                        offset,
                        local.key.as_str().to_owned(),
                        RawExpr::Hcl(&local.value),
                    )
                });
                local.collect()
            }
            RawBody::Json(json) => {
                let members = json.members().iter().filter(|(name, _)| name != "//");
                let local = members
                    .map(|(name, value)| (value.offset, name.to_string(), RawExpr::Json(value)));
                local.collect()
            }
        };
        for (offset, name, value) in locals {
            let mut references = References::new();
            self.reading.collect(value, &mut references);
            self.item(offset, ItemKind::Local(LocalFacts { name, references }));
        }
    }

    fn settings(&mut self, block: &RawBlock<'_>) {
        let mut required = Vec::new();
        let mut misshapen = Vec::new();
        for block in block.body.blocks("required_providers", 0, &mut misshapen) {
            required.extend(providers::required(block.body));
        }
        if !required.is_empty() {
            self.item(block.offset, ItemKind::Requires(required));
        }
    }

    fn nested_references(&self, body: RawBody<'_>, keyword: &str) -> References {
        let mut references = References::new();
        for block in body.blocks(keyword, 0, &mut Vec::new()) {
            self.reading.collect_body(block.body, &mut references);
        }
        references
    }
}

fn repetition(body: RawBody<'_>) -> Option<Repetition> {
    if body.attribute("for_each").is_some() {
        Some(Repetition::ForEach)
    } else {
        body.attribute("count").map(|_| Repetition::Count)
    }
}
