//! The API document, put together from what the handlers say of themselves.

use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    Components, Info, License, OpenApi, OpenApiBuilder, Paths, SecurityRequirement,
};
use utoipa::{PartialSchema as _, ToSchema as _};

use crate::table::{Access, Route};

/// The document for a table.
#[must_use]
pub fn document(table: &[Route]) -> OpenApi {
    let mut info = Info::new("Kilolock", env!("CARGO_PKG_VERSION"));
    info.description = Some(
        "State service for Terraform and OpenTofu. Refusals are `application/problem+json` with a stable `code`."
            .to_owned(),
    );
    info.license = Some(License::new("Apache-2.0"));

    let mut paths = Paths::new();
    let mut components = Components::new();
    let mut schemas = Vec::new();
    protocol::Problem::schemas(&mut schemas);
    schemas.push((
        protocol::Problem::name().into_owned(),
        protocol::Problem::schema(),
    ));
    for route in table {
        let Some(docs) = &route.docs else { continue };
        let mut documented = docs.paths.clone();
        if matches!(route.access, Access::Public(_)) {
            // No login: an empty list overrides the document's own requirement.
            for item in documented.paths.values_mut() {
                let operations = [
                    &mut item.get,
                    &mut item.post,
                    &mut item.put,
                    &mut item.delete,
                    &mut item.patch,
                ];
                for operation in operations.into_iter().flatten() {
                    operation.security = Some(Vec::new());
                }
            }
        }
        paths.merge(documented);
        schemas.extend(docs.schemas.iter().cloned());
    }
    components.schemas.extend(schemas);
    for (name, scheme) in [
        ("bearer", HttpAuthScheme::Bearer),
        ("basic", HttpAuthScheme::Basic),
    ] {
        components.security_schemes.insert(
            name.to_owned(),
            SecurityScheme::Http(Http::new(scheme)).into(),
        );
    }
    OpenApiBuilder::new()
        .info(info)
        .paths(paths)
        .components(Some(components))
        .security(Some(["bearer", "basic"].map(|name| {
            SecurityRequirement::new::<_, [&str; 0], &str>(name, [])
        })))
        .build()
}

/// The document as it is committed and served: JSON, indented, with a final newline.
///
/// # Errors
///
/// When the document cannot be written as JSON.
pub fn to_json(table: &[Route]) -> serde_json::Result<String> {
    let mut text = serde_json::to_string_pretty(&document(table))?;
    text.push('\n');
    Ok(text)
}
