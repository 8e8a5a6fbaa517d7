//! The routes of tags, exports, imports and jobs, and the transfers under signed addresses.

use bytes::Bytes;
use protocol::archives::{
    Download, ExportRequest, ImportRequest, ImportUpload, Job, JobPage, SetTag, Tag, TagList,
    UploadPart,
};
use protocol::{EnvironmentId, JobId, WorkspaceId};
use reqwest::header::{CONTENT_LENGTH, HeaderName, HeaderValue, IF_RANGE, RANGE};
use reqwest::{Method, Response, Url};

use super::{ApiError, Call, Client, Repeat, documents};
use crate::config::StateAddress;
use crate::output::progress::Progress;

/// Where jobs are: an environment.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) workspace: WorkspaceId,
    pub(crate) environment: EnvironmentId,
}

/// Makes a request that creates something repeatable.
fn once(call: Call) -> Call {
    let key = uuid::Uuid::new_v4().to_string();
    match HeaderValue::from_str(&key) {
        Ok(key) => call.header(HeaderName::from_static("idempotency-key"), key),
        Err(_) => call,
    }
}

impl Client {
    pub(crate) async fn list_tags(&self, state: &StateAddress) -> Result<TagList, ApiError> {
        self.json(Call::get(state.route(&["tags"]))).await
    }

    pub(crate) async fn set_tag(
        &self,
        state: &StateAddress,
        tag: &str,
        wanted: &SetTag,
    ) -> Result<Tag, ApiError> {
        let call = Call::new(Method::PUT, state.route(&["tags", tag]), Repeat::Freely);
        self.json(call.json(wanted)?).await
    }

    pub(crate) async fn unset_tag(&self, state: &StateAddress, tag: &str) -> Result<(), ApiError> {
        let url = state.route(&["tags", tag]);
        self.done(Call::new(Method::DELETE, url, Repeat::BeforeArrival))
            .await
    }

    pub(crate) async fn export_state(&self, state: &StateAddress) -> Result<Job, ApiError> {
        let call = Call::new(Method::POST, state.route(&["archive"]), Repeat::Freely);
        self.json(once(call).json(&ExportRequest {})?).await
    }

    pub(crate) async fn create_import(
        &self,
        place: &Place,
        wanted: &ImportRequest,
    ) -> Result<Job, ApiError> {
        let url = self.in_environment(place, &["imports"]);
        let call = Call::new(Method::POST, url, Repeat::Freely);
        self.json(once(call).json(wanted)?).await
    }

    /// Which parts of an upload are missing, and where to put the first of them.
    pub(crate) async fn list_missing_parts(
        &self,
        place: &Place,
        job: JobId,
    ) -> Result<ImportUpload, ApiError> {
        let job = job.to_string();
        let url = self.in_environment(place, &["imports", &job, "parts"]);
        self.json(Call::new(Method::POST, url, Repeat::Freely))
            .await
    }

    pub(crate) async fn complete_import(&self, place: &Place, job: JobId) -> Result<Job, ApiError> {
        let job = job.to_string();
        let url = self.in_environment(place, &["imports", &job, "complete"]);
        self.json(Call::new(Method::POST, url, Repeat::Freely))
            .await
    }

    pub(crate) async fn list_jobs(
        &self,
        place: &Place,
        cursor: Option<&str>,
    ) -> Result<JobPage, ApiError> {
        let mut url = self.in_environment(place, &["jobs"]);
        if let Some(cursor) = cursor {
            url.query_pairs_mut().append_pair("cursor", cursor);
        }
        self.json(Call::get(url)).await
    }

    pub(crate) async fn get_job(&self, place: &Place, job: JobId) -> Result<Job, ApiError> {
        let url = self.in_environment(place, &["jobs", &job.to_string()]);
        self.json(Call::get(url)).await
    }

    pub(crate) async fn cancel_job(&self, place: &Place, job: JobId) -> Result<Job, ApiError> {
        let url = self.in_environment(place, &["jobs", &job.to_string(), "cancel"]);
        self.json(Call::new(Method::POST, url, Repeat::BeforeArrival))
            .await
    }

    /// An address of an export's archive.
    pub(crate) async fn sign_download(
        &self,
        place: &Place,
        job: JobId,
    ) -> Result<Download, ApiError> {
        let url = self.in_environment(place, &["jobs", &job.to_string(), "download"]);
        self.json(Call::new(Method::POST, url, Repeat::Freely))
            .await
    }

    /// Fetches what is under a signed address, from `start` on; the whole where that is not the object of this tag any
    /// more. No token goes along: the address is the proof, and it may lead to another server.
    pub(crate) async fn fetch_signed(
        &self,
        url: &str,
        start: u64,
        etag: Option<&HeaderValue>,
    ) -> Result<Response, ApiError> {
        let mut request = self.http.get(self.signed_url(url)?);
        if start > 0 {
            request = request.header(RANGE, format!("bytes={start}-"));
            if let Some(etag) = etag {
                request = request.header(IF_RANGE, etag);
            }
        }
        self.signed_answer(request).await
    }

    /// Puts a part of an archive where it belongs.
    pub(crate) async fn put_part(
        &self,
        part: &UploadPart,
        bytes: Bytes,
        progress: Progress,
    ) -> Result<(), ApiError> {
        let mut request = self
            .http
            .put(self.signed_url(&part.url)?)
            .header(CONTENT_LENGTH, bytes.len());
        for (name, value) in &part.headers {
            request = request.header(name, value);
        }
        let body = documents::pieces(bytes, progress);
        self.signed_answer(request.body(body)).await.map(drop)
    }

    async fn signed_answer(&self, request: reqwest::RequestBuilder) -> Result<Response, ApiError> {
        let response = request
            .send()
            .await
            .map_err(|error| ApiError::unreachable(&self.server, &error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(ApiError::read(response, false).await)
    }

    /// A signed address is whole, or a path of the server itself.
    fn signed_url(&self, url: &str) -> Result<Url, ApiError> {
        let parsed = if url.starts_with('/') {
            let base = self.server.to_string();
            Url::parse(&format!("{base}{url}"))
        } else {
            Url::parse(url)
        };
        parsed.map_err(|_| ApiError::Unreadable {
            path: "a signed address".to_owned(),
            line: 1,
            column: 1,
        })
    }

    fn in_environment(&self, place: &Place, rest: &[&str]) -> Url {
        let start = [
            "v1",
            "workspaces",
            place.workspace.as_str(),
            "environments",
            place.environment.as_str(),
        ];
        let segments: Vec<&str> = start.iter().chain(rest).copied().collect();
        self.server.route(&segments)
    }
}
