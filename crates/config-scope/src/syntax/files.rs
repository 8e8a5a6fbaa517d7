//! Which files a function call reads, as far as the name is written out.
//!
//! This serves the question "who reads the template I changed", not the dependency graph: a name
//! that is computed is simply not known here.

use hcl_edit::{
    expr::{Expression, FuncCall, TraversalOperator},
    template::Element,
};

use crate::reference::{FileBase, FileRead};

/// Functions whose first argument is the path of one file.
const ONE_FILE: &[&str] = &[
    "file",
    "filebase64",
    "filebase64sha256",
    "filebase64sha512",
    "fileexists",
    "filemd5",
    "filesha1",
    "filesha256",
    "filesha512",
    "templatefile",
];

/// The file, or the directory of files, that `call` reads.
pub(super) fn read_by(call: &FuncCall) -> Option<FileRead> {
    let name = call.name.name.as_str();
    let is_directory = name == "fileset";
    if !is_directory && !ONE_FILE.contains(&name) {
        return None;
    }
    let (base, path, complete) = literal_path(call.args.get(0)?)?;
    if complete {
        return Some(FileRead {
            base,
            path,
            exact: !is_directory,
        });
    }
    // Of a partly computed name only the directory before the computed part is certain.
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    Some(FileRead {
        base,
        path: directory.to_owned(),
        exact: false,
    })
}

/// The base, the literal beginning of the path, and whether that is all of it.
fn literal_path(argument: &Expression) -> Option<(FileBase, String, bool)> {
    let template = match argument {
        Expression::String(path) => return Some((FileBase::Root, path.value().clone(), true)),
        Expression::StringTemplate(template) => template,
        Expression::Parenthesis(inner) => return literal_path(inner.inner()),
        _ => return path_object(argument).map(|base| (base, String::new(), true)),
    };
    let mut elements = template.iter().peekable();
    let mut base = None;
    if let Some(Element::Interpolation(inner)) = elements.peek() {
        base = Some(path_object(&inner.expr)?);
        elements.next();
    }
    let mut path = String::new();
    let mut complete = true;
    for element in elements {
        let Element::Literal(text) = element else {
            complete = false;
            break;
        };
        path.push_str(text);
    }
    Some(match base {
        // After `${path.module}` the path goes on with a slash, which does not make it absolute.
        Some(base) => (base, path.trim_start_matches('/').to_owned(), complete),
        None => (FileBase::Root, path, complete),
    })
}

fn path_object(expression: &Expression) -> Option<FileBase> {
    let traversal = expression.as_traversal()?;
    if traversal.expr.as_variable()?.as_str() != "path" {
        return None;
    }
    match traversal.operators.first()?.value() {
        TraversalOperator::GetAttr(name) if name.as_str() == "module" => Some(FileBase::Module),
        TraversalOperator::GetAttr(_) => Some(FileBase::Root),
        _ => None,
    }
}
