//! The route table: every route with its method, address, lane and action.
//!
//! The router is built from the table and from nothing else, so there is no way to serve a handler without saying
//! what the caller must be allowed to do. The matrix test walks the same table.

use std::collections::HashSet;

use auth::Action;
use axum::http::Method;
use axum::routing::MethodRouter;
use utoipa::openapi::path::Paths;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{HttpMethod, RefOr};
use utoipa_axum::router::UtoipaMethodRouter;

use crate::state::AppState;

/// Whose customs a route follows where it refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Plain Terraform's: `application/json`, and one 403 for everything the caller may not see, because Terraform takes
    /// a 404 for "no state yet" and plans to create everything.
    Terraform,
    /// Everybody else's: `application/problem+json`, and one 404 for what does not exist or may not be seen.
    Api,
}

/// What a caller must be allowed to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// This, on what the address names.
    Needs(Action),
    /// This, on the state that the request names in its body or its query. The dispatcher sees to it that somebody is
    /// logged in; the extractor that reads the name decides, and a handler gets neither caller nor body without it.
    NeedsOnNamed(Action),
    /// Nothing; the text says why that is right.
    Public(&'static str),
}

/// What a route is on, by the parameters of its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The caller itself.
    Caller,
    /// The deployment.
    Deployment,
    /// The workspace `{ws}`.
    Workspace,
    /// The environment `{ws}/{env}`, or something in it.
    Environment,
    /// The state that the request names in its body or its query.
    Named,
    /// The run `{run}`.
    Run,
}

/// One row of the table.
#[derive(Clone)]
pub struct Route {
    /// A name for spans, metrics and tests: `<verb>_<resource>`, like the handler.
    pub name: &'static str,
    /// The method; not only those that HTTP itself knows.
    pub method: Method,
    /// The address, with `{ws}`, `{env}`, `{name}` for the parameters that decisions are made on.
    pub path: &'static str,
    /// Whose customs it follows.
    pub lane: Lane,
    /// What a caller must be allowed to do.
    pub access: Access,
    /// What is called when they are.
    pub handler: MethodRouter<AppState>,
    /// What the API document says about it.
    pub docs: Option<RouteDocs>,
}

/// A route's part of the API document.
#[derive(Clone)]
pub struct RouteDocs {
    pub(crate) schemas: Vec<(String, RefOr<Schema>)>,
    pub(crate) paths: Paths,
}

/// A handler, with or without its part of the API document.
pub struct Endpoint {
    handler: MethodRouter<AppState>,
    docs: Option<RouteDocs>,
}

impl From<UtoipaMethodRouter<AppState>> for Endpoint {
    /// From `routes!(handler)`.
    fn from((schemas, paths, handler): UtoipaMethodRouter<AppState>) -> Self {
        Self {
            handler,
            docs: Some(RouteDocs { schemas, paths }),
        }
    }
}

impl From<MethodRouter<AppState>> for Endpoint {
    /// From `any(handler)`, for methods that OpenAPI cannot describe.
    fn from(handler: MethodRouter<AppState>) -> Self {
        Self {
            handler,
            docs: None,
        }
    }
}

impl Route {
    /// A row of the Terraform lane.
    pub fn terraform(
        name: &'static str,
        method: Method,
        path: &'static str,
        action: Action,
        endpoint: impl Into<Endpoint>,
    ) -> Self {
        Self::new(
            name,
            method,
            path,
            Lane::Terraform,
            Access::Needs(action),
            endpoint.into(),
        )
    }

    /// A row of everything else.
    pub fn api(
        name: &'static str,
        method: Method,
        path: &'static str,
        action: Action,
        endpoint: impl Into<Endpoint>,
    ) -> Self {
        Self::new(
            name,
            method,
            path,
            Lane::Api,
            Access::Needs(action),
            endpoint.into(),
        )
    }

    /// A row on the state that the request names in its body or its query.
    pub fn named(
        name: &'static str,
        method: Method,
        path: &'static str,
        action: Action,
        endpoint: impl Into<Endpoint>,
    ) -> Self {
        Self::new(
            name,
            method,
            path,
            Lane::Api,
            Access::NeedsOnNamed(action),
            endpoint.into(),
        )
    }

    /// A row that asks for no login; `why` is for the reader.
    pub fn public(
        name: &'static str,
        method: Method,
        path: &'static str,
        why: &'static str,
        endpoint: impl Into<Endpoint>,
    ) -> Self {
        Self::new(
            name,
            method,
            path,
            Lane::Api,
            Access::Public(why),
            endpoint.into(),
        )
    }

    fn new(
        name: &'static str,
        method: Method,
        path: &'static str,
        lane: Lane,
        access: Access,
        endpoint: Endpoint,
    ) -> Self {
        let Endpoint { handler, docs } = endpoint;
        Self {
            name,
            method,
            path,
            lane,
            access,
            handler,
            docs,
        }
    }

    /// What the route is on.
    #[must_use]
    pub fn scope(&self) -> Scope {
        if matches!(self.access, Access::NeedsOnNamed(_)) {
            Scope::Named
        } else if self.path.contains("/{env}") {
            Scope::Environment
        } else if self.path.contains("/{run}") {
            Scope::Run
        } else if self.path.contains("/{ws}") {
            Scope::Workspace
        } else if self.access == Access::Needs(Action::ReadSelf) {
            Scope::Caller
        } else {
            Scope::Deployment
        }
    }
}

/// A table that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// Two rows answer the same request.
    #[error("two routes answer {0} {1}")]
    Twice(Method, &'static str),
    /// Two rows have the same name.
    #[error("two routes are called `{0}`")]
    SameName(&'static str),
    /// An environment without its workspace.
    #[error("the route `{0}` names an environment and no workspace before it")]
    NoWorkspace(&'static str),
    /// The handler describes itself otherwise than the row does.
    #[error("the route `{0}` is documented as something other than {1} {2}")]
    OtherDocs(&'static str, Method, &'static str),
}

/// Checks the rows against each other and against what their handlers say of themselves.
///
/// # Errors
///
/// The first contradiction. The service does not start with one.
pub fn checked(routes: Vec<Route>) -> Result<Vec<Route>, TableError> {
    let mut seen = HashSet::new();
    let mut names = HashSet::new();
    for route in &routes {
        if !seen.insert((route.method.clone(), route.path)) {
            return Err(TableError::Twice(route.method.clone(), route.path));
        }
        if !names.insert(route.name) {
            return Err(TableError::SameName(route.name));
        }
        if route.path.contains("/{env}") && !route.path.contains("/{ws}/") {
            return Err(TableError::NoWorkspace(route.name));
        }
        if let Some(docs) = &route.docs
            && !documents(&docs.paths, &route.method, route.path)
        {
            return Err(TableError::OtherDocs(
                route.name,
                route.method.clone(),
                route.path,
            ));
        }
    }
    Ok(routes)
}

fn documents(paths: &Paths, method: &Method, path: &str) -> bool {
    let method = match *method {
        Method::GET => HttpMethod::Get,
        Method::HEAD => HttpMethod::Head,
        Method::POST => HttpMethod::Post,
        Method::PUT => HttpMethod::Put,
        Method::PATCH => HttpMethod::Patch,
        Method::DELETE => HttpMethod::Delete,
        _ => return false,
    };
    paths.paths.len() == 1 && paths.get_path_operation(path, method).is_some()
}

#[cfg(test)]
mod tests {
    use axum::routing::any;

    use super::*;

    fn row(name: &'static str, method: &Method, path: &'static str) -> Route {
        let endpoint: MethodRouter<AppState> = any(async || "");
        Route::api(name, method.clone(), path, Action::ReadSelf, endpoint)
    }

    #[test]
    fn rows_that_contradict_each_other_are_refused() {
        let get = Method::GET;
        let twice = checked(vec![row("a", &get, "/x"), row("b", &get, "/x")]);
        assert!(matches!(twice, Err(TableError::Twice(..))));
        let same_name = checked(vec![row("a", &get, "/x"), row("a", &get, "/y")]);
        assert!(matches!(same_name, Err(TableError::SameName("a"))));
        let orphan = checked(vec![row("a", &get, "/x/{env}")]);
        assert!(matches!(orphan, Err(TableError::NoWorkspace("a"))));
        let lock = Method::from_bytes(b"LOCK").unwrap();
        assert!(checked(vec![row("a", &get, "/x"), row("b", &lock, "/x")]).is_ok());
    }

    #[test]
    fn the_address_says_what_a_route_is_on() {
        let scope = |path| row("a", &Method::GET, path).scope();
        assert_eq!(scope("/v1/whoami"), Scope::Caller);
        assert_eq!(scope("/v1/workspaces/{ws}/tokens"), Scope::Workspace);
        assert_eq!(scope("/v1/states/{ws}/{env}/{name}"), Scope::Environment);
    }
}
