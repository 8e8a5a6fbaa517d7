//! Every route × every role × {own place, another environment, another workspace, nowhere}.
//!
//! The routes come from the route table. What each role may do stands here a second time, by hand: the test compares two
//! opinions. A route without a row here fails it.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::Method;
use kld::table::{Access, Lane, Route, Scope};
use protocol::{Code, EnvironmentId, Role, WorkspaceId};
use serde_json::Value;
use store::testing::{TestDatabase, Wire};

use crate::harness::{Setup, TestApp};

/// For each route, the roles that may. `any` is every role, also one that is held in a single environment; `operator` is
/// an operator and nobody else; `everybody` needs only a login; `public` not even that. `nobody`
/// is for what only the one who began a run may do, whatever the role: here that is somebody else.
const EXPECTED: &[(&str, &str)] = &[
    ("get_health", "public"),
    ("get_readiness", "public"),
    ("get_version", "public"),
    ("get_api", "public"),
    ("revoke_found_token", "public"),
    ("read_self", "everybody"),
    ("create_workspace", "operator"),
    ("list_workspaces", "operator"),
    ("get_workspace", "any"),
    ("update_workspace", "operator"),
    ("create_environment", "admin"),
    ("list_environments", "any"),
    ("get_environment", "viewer reader writer maintainer admin"),
    ("update_environment", "admin"),
    ("create_member", "admin"),
    ("list_members", "admin"),
    ("replace_grants", "admin"),
    ("delete_grants", "admin"),
    ("create_token", "admin"),
    ("list_tokens", "admin"),
    ("revoke_token", "admin"),
    ("list_audit", "auditor admin"),
    ("read_state", "outputs reader writer maintainer admin"),
    ("head_state", "outputs reader writer maintainer admin"),
    ("write_state", "writer maintainer admin"),
    ("delete_state", "writer maintainer admin"),
    ("lock_state", "writer maintainer admin"),
    ("unlock_state", "writer maintainer admin"),
    ("lock_state_by_post", "writer maintainer admin"),
    ("unlock_state_by_post", "writer maintainer admin"),
    ("unlock_state_apart", "writer maintainer admin"),
    ("list_states", "viewer reader writer maintainer admin"),
    ("list_deleted_states", "writer maintainer admin"),
    ("get_status", "viewer reader writer maintainer admin"),
    ("get_capabilities", "everybody"),
    ("resolve_state", "viewer reader writer maintainer admin"),
    ("get_inventory", "viewer reader writer maintainer admin"),
    ("expand_scope", "viewer reader writer maintainer admin"),
    ("read_slice", "reader writer maintainer admin"),
    ("preview_remove", "reader writer maintainer admin"),
    ("apply_remove", "writer maintainer admin"),
    ("preview_move", "reader writer maintainer admin"),
    ("apply_move", "writer maintainer admin"),
    ("preview_restore", "reader writer maintainer admin"),
    ("apply_restore", "writer maintainer admin"),
    ("preview_patch", "reader writer maintainer admin"),
    ("apply_patch", "writer maintainer admin"),
    ("begin_apply_run", "writer maintainer admin"),
    ("get_apply_run", "viewer reader writer maintainer admin"),
    ("finish_apply_run", "reader writer maintainer admin"),
    ("abort_apply_run", "maintainer admin"),
    ("acquire_reservations", "writer maintainer admin"),
    ("renew_reservations", "nobody"),
    ("release_reservations", "nobody"),
    ("acquire_native_lock", "writer maintainer admin"),
    ("release_native_lock", "writer maintainer admin"),
    ("commit_state", "writer maintainer admin"),
    ("get_graph", "viewer reader writer maintainer admin"),
    ("list_resources", "viewer reader writer maintainer admin"),
    ("get_resource", "viewer reader writer maintainer admin"),
    (
        "get_outputs",
        "outputs viewer reader writer maintainer admin",
    ),
    ("list_versions", "viewer reader writer maintainer admin"),
    ("get_state_version", "viewer reader writer maintainer admin"),
    ("read_version_document", "reader writer maintainer admin"),
    ("read_kept_document", "reader writer maintainer admin"),
    ("compare_kept", "viewer reader writer maintainer admin"),
    ("adopt_kept", "writer maintainer admin"),
    ("discard_kept", "writer maintainer admin"),
    ("roll_back_state", "maintainer admin"),
    ("import_state", "writer maintainer admin"),
    ("take_admin_lock", "maintainer admin"),
    ("release_admin_lock", "maintainer admin"),
    ("force_unlock_state", "writer maintainer admin"),
    ("undelete_state", "writer maintainer admin"),
    ("list_tags", "viewer reader writer maintainer admin"),
    ("set_tag", "writer maintainer admin"),
    ("unset_tag", "writer maintainer admin"),
    ("export_state", "maintainer admin"),
    ("create_import", "writer maintainer admin"),
    // The job of this test is another's.
    ("list_missing_parts", "maintainer admin"),
    ("complete_import", "maintainer admin"),
    ("list_jobs", "writer maintainer admin"),
    ("get_job", "writer maintainer admin"),
    ("download_archive", "maintainer admin"),
    ("cancel_job", "maintainer admin"),
    ("get_archive_keys", "public"),
    ("get_object", "public"),
    ("put_object", "public"),
    ("begin_run", "reader writer maintainer admin"),
    ("reopen_run", "reader writer maintainer admin"),
    ("list_runs", "viewer reader writer maintainer admin"),
    ("watch_state", "viewer reader writer maintainer admin"),
    ("watch_run", "viewer reader writer maintainer admin"),
    ("get_run", "viewer reader writer maintainer admin"),
    ("renew_run", "reader writer maintainer admin"),
    ("extend_run", "reader writer maintainer admin"),
    ("finish_run", "reader writer maintainer admin"),
    ("lock_run_state", "reader writer maintainer admin"),
    // Where the request of this test is a whole one, it meets the run of another. A maintainer may end that.
    ("abort_run", "maintainer admin"),
    ("read_run_state", "nobody"),
    ("write_run_state", "nobody"),
    ("unlock_run_state", "nobody"),
];

/// Where a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Own,
    OtherEnvironment,
    OtherWorkspace,
    Nowhere,
}

/// A role, and whether it is held in the whole workspace or in one environment.
#[derive(Debug, Clone, Copy)]
struct Holder {
    role: Role,
    wide: bool,
}

struct World {
    app: TestApp,
    wire: Wire,
    own: (WorkspaceId, EnvironmentId),
    other_environment: EnvironmentId,
    other: (WorkspaceId, EnvironmentId),
    /// A run in each of those places, and an import that waits for its archive.
    runs: [String; 3],
    jobs: [String; 3],
    tokens: Vec<(Holder, String)>,
    _blobs: tempfile::TempDir,
}

impl World {
    async fn make() -> Self {
        let wire = Wire::start().await;
        let blobs = tempfile::tempdir().unwrap();
        let setup = Setup {
            database_address: Some(wire.address),
            settings: vec![("KL_BLOBS", format!("file:{}", blobs.path().display()))],
            ..Setup::default()
        };
        let app = TestApp::start_with(TestDatabase::create().await, setup).await;
        let (own, other_environment, other, runs, jobs, tokens) = {
            let workspace = app.workspace("own").await;
            let environment = workspace.environment("own").await;
            let other_environment = workspace.environment("other").await;
            let foreign = app.workspace("foreign").await;
            let foreign_environment = foreign.environment("foreign").await;
            // There is something to find where nobody may look: a state with a version and a lock.
            let state = format!("/v1/states/{}/{foreign_environment}/some-state", foreign.id);
            let document = include_str!("../lane/small.json");
            for (method, path, body) in [
                ("POST", state.clone(), document.to_owned()),
                (
                    "LOCK",
                    state,
                    r#"{"ID":"held","Who":"somebody"}"#.to_owned(),
                ),
            ] {
                let request = app.request(method, &path).bearer_auth(&foreign.token);
                let response = request.body(body).send().await.unwrap();
                assert!(response.status().is_success(), "{method}: {response:?}");
            }
            let mut runs = [const { String::new() }; 3];
            let mut jobs = [const { String::new() }; 3];
            for (index, (workspace, environment, token)) in [
                (&workspace.id, &environment, &workspace.token),
                (&workspace.id, &other_environment, &workspace.token),
                (&foreign.id, &foreign_environment, &foreign.token),
            ]
            .into_iter()
            .enumerate()
            {
                let state = format!("{workspace}/{environment}/of-a-run");
                runs[index] = begin_plan(&app, token, &state).await;
                let place = format!("/v1/workspaces/{workspace}/environments/{environment}");
                jobs[index] = ask_import(&app, token, &place).await;
            }
            let mut tokens = Vec::new();
            for role in Role::ALL {
                for wide in [true, false] {
                    let place = (!wide).then_some(&environment);
                    tokens.push((Holder { role, wide }, workspace.token(role, place).await));
                }
            }
            let other = (foreign.id.clone(), foreign_environment);
            (
                (workspace.id.clone(), environment),
                other_environment,
                other,
                runs,
                jobs,
                tokens,
            )
        };
        Self {
            app,
            wire,
            own,
            other_environment,
            other,
            runs,
            jobs,
            tokens,
            _blobs: blobs,
        }
    }

    fn ids(&self, place: Place) -> (WorkspaceId, EnvironmentId) {
        match place {
            Place::Own => self.own.clone(),
            Place::OtherEnvironment => (self.own.0.clone(), self.other_environment.clone()),
            Place::OtherWorkspace => self.other.clone(),
            Place::Nowhere => (
                WorkspaceId::from_bytes([0xee; 6]),
                EnvironmentId::from_bytes([0xee; 6]),
            ),
        }
    }

    fn run(&self, place: Place) -> &str {
        match place {
            Place::Own => &self.runs[0],
            Place::OtherEnvironment => &self.runs[1],
            Place::OtherWorkspace => &self.runs[2],
            Place::Nowhere => "run_eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee",
        }
    }

    fn job(&self, place: Place) -> &str {
        match place {
            Place::Own => &self.jobs[0],
            Place::OtherEnvironment => &self.jobs[1],
            Place::OtherWorkspace => &self.jobs[2],
            Place::Nowhere => "job_eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee",
        }
    }

    fn path(&self, route: &Route, place: Place) -> String {
        let (workspace, environment) = self.ids(place);
        let path = route
            .path
            .replace("{ws}", workspace.as_str())
            .replace("{env}", environment.as_str())
            .replace("{name}", "some-state")
            .replace("{run}", self.run(place))
            .replace("{job}", self.job(place))
            .replace("{principal}", "pr_eeeeeeeeeeee")
            .replace("{token_id}", "eeeeeeeeeeee");
        let query = match route.scope() {
            Scope::Named if route.method == Method::GET => {
                format!("?state={workspace}/{environment}/some-state")
            }
            _ => String::new(),
        };
        // Whatever else an address names, nothing is there.
        path.split('/')
            .map(|part| if part.starts_with('{') { "1" } else { part })
            .collect::<Vec<_>>()
            .join("/")
            + &query
    }

    /// Sends the request of a route and gives status, everything in the answer that may be compared, and the cost in
    /// statements.
    async fn send(&self, route: &Route, place: Place, token: Option<&str>) -> Answer {
        let path = self.path(route, place);
        let mut request = self.app.request(route.method.as_str(), &path);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if !matches!(route.method.as_str(), "GET" | "HEAD") {
            let mut body = serde_json::json!({});
            if route.scope() == Scope::Named {
                let (workspace, environment) = self.ids(place);
                body["state"] = format!("{workspace}/{environment}/some-state").into();
            }
            request = request.json(&body);
        }
        let before = self.wire.statements();
        let response = request.send().await.unwrap();
        let statements = self.wire.statements() - before;
        let status = response.status().as_u16();
        let mut headers: BTreeMap<String, String> = response
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        headers.remove("date");
        headers.remove("x-request-id");
        let kind = response.headers().get("content-type");
        let text = match kind.is_some_and(|kind| kind == "text/event-stream") {
            // It has no end.
            true => String::new(),
            false => response.text().await.unwrap(),
        };
        let mut body: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        if let Some(id) = body.get_mut("request_id") {
            id.take();
        }
        Answer {
            status,
            code: body["code"].as_str().map(str::to_owned),
            headers,
            body,
            statements,
        }
    }
}

impl World {
    /// What a request costs in statements: the least of several, because what the replica does besides only adds to it.
    async fn cost(&self, route: &Route, place: Place, token: Option<&str>) -> u64 {
        let mut least = u64::MAX;
        for _ in 0..6 {
            least = least.min(self.send(route, place, token).await.statements);
        }
        least
    }
}

/// Begins a run that only plans, and gives its id.
async fn begin_plan(app: &TestApp, token: &str, state: &str) -> String {
    let block = "terraform_data.x";
    let request = app.request("POST", "/v1/runs").bearer_auth(token);
    let request = request.json(&serde_json::json!({
        "state": state, "kind": "plan", "key": "k", "command": "kl plan", "who": "ann@laptop",
        "scope": {
            "write": [block],
            "configuration": { "nodes": [{ "address": block, "repetition": "single" }], "calls": [] },
        },
    }));
    let response = request.send().await.unwrap();
    let status = response.status();
    let run: Value = response.json().await.unwrap();
    assert!(status.is_success(), "{run}");
    run["id"].as_str().unwrap().to_owned()
}

/// Asks for an import, and gives the id of its job, which waits for the archive.
async fn ask_import(app: &TestApp, token: &str, place: &str) -> String {
    let request = app.request("POST", &format!("{place}/imports"));
    let request = request.bearer_auth(token).json(&serde_json::json!({
        "name": "to-come", "size_bytes": 1, "parts": ["e".repeat(64)],
    }));
    let response = request.send().await.unwrap();
    let status = response.status();
    let job: Value = response.json().await.unwrap();
    assert!(status.is_success(), "{job}");
    job["id"].as_str().unwrap().to_owned()
}

#[derive(Debug)]
struct Answer {
    status: u16,
    code: Option<String>,
    headers: BTreeMap<String, String>,
    body: Value,
    statements: u64,
}

impl Answer {
    /// An answer to HEAD has no body that could hold a code.
    fn is(&self, code: Code) -> bool {
        let coded = self.code.as_deref() == Some(code.as_str());
        self.status == code.status() && (coded || self.body.as_str() == Some(""))
    }
}

/// What a holder may expect of a route in a place.
fn expected_code(route: &Route, who: &str, holder: Holder, place: Place) -> Option<Code> {
    let hidden = match route.lane {
        Lane::Terraform => Code::Forbidden,
        Lane::Api => Code::NotFound,
    };
    let role_may = who == "any" || who.split(' ').any(|role| role == holder.role.as_str());
    match route.scope() {
        Scope::Caller => None,
        Scope::Deployment => Some(Code::Forbidden),
        Scope::Workspace => match place {
            Place::Own | Place::OtherEnvironment if who == "any" => None,
            Place::Own | Place::OtherEnvironment if role_may && holder.wide => None,
            Place::Own | Place::OtherEnvironment => Some(Code::Forbidden),
            Place::OtherWorkspace | Place::Nowhere => Some(hidden),
        },
        Scope::Environment | Scope::Named | Scope::Run => match place {
            Place::OtherEnvironment if !holder.wide => Some(hidden),
            Place::Own | Place::OtherEnvironment if role_may => None,
            Place::Own | Place::OtherEnvironment => Some(Code::Forbidden),
            Place::OtherWorkspace | Place::Nowhere => Some(hidden),
        },
    }
}

#[test]
fn every_route_has_a_row_and_every_row_a_route() {
    let table = kld::routes::table();
    let routes: BTreeSet<&str> = table.iter().map(|route| route.name).collect();
    let rows: BTreeSet<&str> = EXPECTED.iter().map(|(name, _)| *name).collect();
    assert_eq!(rows.len(), EXPECTED.len(), "a row stands twice");
    assert_eq!(
        routes, rows,
        "routes on the left, rows of this test on the right"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_role_may_what_is_expected_and_nothing_else() {
    let world = World::make().await;
    let places = [
        Place::Own,
        Place::OtherEnvironment,
        Place::OtherWorkspace,
        Place::Nowhere,
    ];
    for route in kld::routes::table() {
        let (_, who) = EXPECTED
            .iter()
            .find(|(name, _)| *name == route.name)
            .unwrap();
        if *who == "public" {
            assert!(matches!(route.access, Access::Public(_)), "{}", route.name);
            continue;
        }
        for (holder, token) in &world.tokens {
            for place in places {
                let answer = world.send(&route, place, Some(token)).await;
                let context = format!("{} as {holder:?} at {place:?}: {answer:?}", route.name);
                match expected_code(&route, who, *holder, place) {
                    Some(code) => assert!(answer.is(code), "{context}"),
                    None => assert!(!matches!(answer.status, 401 | 403 | 405), "{context}"),
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_login_every_route_says_401() {
    let world = World::make().await;
    for route in kld::routes::table() {
        if matches!(route.access, Access::Public(_)) {
            continue;
        }
        let mut answers = Vec::new();
        for place in [Place::Own, Place::OtherWorkspace, Place::Nowhere] {
            let answer = world.send(&route, place, None).await;
            assert!(
                answer.is(Code::Unauthenticated),
                "{}: {answer:?}",
                route.name
            );
            if answer.statements != 0 {
                let cost = world.cost(&route, place, None).await;
                assert_eq!(cost, 0, "{}: {answer:?}", route.name);
            }
            answers.push((answer.headers, answer.body));
        }
        assert!(
            answers.windows(2).all(|pair| pair[0] == pair[1]),
            "{}",
            route.name
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn absent_and_foreign_are_the_same_answer_at_the_same_cost() {
    let world = World::make().await;
    for route in kld::routes::table() {
        if !matches!(
            route.scope(),
            Scope::Workspace | Scope::Environment | Scope::Named | Scope::Run
        ) {
            continue;
        }
        for (holder, token) in &world.tokens {
            // The first request of a token also reads its verdict for the first time.
            world.send(&route, Place::Nowhere, Some(token)).await;
            let absent = world.send(&route, Place::Nowhere, Some(token)).await;
            let foreign = world.send(&route, Place::OtherWorkspace, Some(token)).await;
            let context = format!("{} as {holder:?}", route.name);
            assert_eq!(absent.status, foreign.status, "{context}");
            assert_eq!(absent.headers, foreign.headers, "{context}");
            assert_eq!(absent.body, foreign.body, "{context}");
            if absent.statements != foreign.statements {
                let absent = world.cost(&route, Place::Nowhere, Some(token)).await;
                let foreign = world.cost(&route, Place::OtherWorkspace, Some(token)).await;
                assert_eq!(absent, foreign, "{context}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_get_what_is_theirs_and_see_nothing_inside() {
    let world = World::make().await;
    let operator = world.app.operator.clone();
    for route in kld::routes::table() {
        let (_, who) = EXPECTED
            .iter()
            .find(|(name, _)| *name == route.name)
            .unwrap();
        let answer = world.send(&route, Place::Own, Some(&operator)).await;
        let context = format!("{}: {answer:?}", route.name);
        let theirs =
            matches!(*who, "public" | "everybody" | "operator") || route.name == "get_workspace";
        match route.scope() {
            _ if theirs => assert!(!matches!(answer.status, 401 | 403 | 404), "{context}"),
            Scope::Environment | Scope::Named | Scope::Run if route.lane == Lane::Api => {
                assert!(answer.is(Code::NotFound), "{context}");
            }
            _ => assert!(answer.is(Code::Forbidden), "{context}"),
        }
    }
}
