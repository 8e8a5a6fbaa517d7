//! Archives: how small, how fast, and how much memory of a worker.
//!
//! The yardstick is what anybody could do by hand: all documents in one tar through zstd with a long window, and back
//! through decompression and SHA-256. It is measured in process, by the same library, on files that are in memory.
//!
//! `KL_BENCH_LARGE=1` adds the memory of a worker at 100 MB and at 5 GB of documents, which takes many minutes.

use std::fs::File;
use std::io::{BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use protocol::archives::{Download, ImportUpload, Job, JobStatus, PART_BYTES};
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Bench;
use super::client::Client;
use super::documents::{Change, Posted, changed};
use super::memory::{forget_peak, peak_bytes};
use super::report::{Report, Target};
use crate::stack::Stack;

pub(super) const NAMES: &[&str] = &[
    "archive_to_documents",
    "archive_to_tar_zstd",
    "archive_export_to_tar_zstd_time",
    "archive_import_to_unpack_and_hash_time",
    "archive_export_growth_1_percent",
    "archive_export_growth_0_1_percent",
    "archive_worker_memory",
];

/// Versions of the history that is measured; twice as many for the growth.
const VERSIONS: usize = 100;
const MEBIBYTE: u64 = 1 << 20;

pub(super) async fn measure(bench: &Bench, report: &Report) -> Result<()> {
    let stack = bench.stack().await?;
    let folder = stack.databases.scratch.data_dir("bench-archive")?;
    let admin = Admin::new(&stack);
    let mut history = History::begin(&stack, bench, "one", 100).await?;
    let files = history.write(VERSIONS, Some(&folder)).await?;
    let documents = history.bytes;
    let (half, job) = admin.export("one").await?;
    let size = job.archive.as_ref().context("no archive")?.size_bytes;
    let memory = peak_bytes(stack.worker_pid())?;
    let tar = folder.join("tar.zst");
    let (packing, packed) = pack(&files, &tar)?;
    let unpacking = unpack(&tar)?;
    report.ratio(
        NAMES[0],
        size as f64 / documents as f64,
        Target::AtMost(0.004),
        &format!("{size} bytes ÷ {documents} bytes, {VERSIONS} versions"),
    );
    report.ratio(
        NAMES[1],
        size as f64 / packed as f64,
        Target::AtMost(0.5),
        &format!("{size} bytes ÷ {packed} bytes"),
    );
    report.ratio(
        NAMES[2],
        half.as_secs_f64() / packing.as_secs_f64(),
        Target::AtMost(0.2),
        &format!("{half:?} ÷ {packing:?}"),
    );
    let imported = admin.import(&job, "copy").await?;
    report.ratio(
        NAMES[3],
        imported.as_secs_f64() / unpacking.as_secs_f64(),
        Target::AtMost(2.0),
        &format!("{imported:?} ÷ {unpacking:?}"),
    );
    history.write(VERSIONS, None).await?;
    let (whole, _) = admin.export("one").await?;
    growth(report, NAMES[4], whole, half, 2.2);

    let mut history = History::begin(&stack, bench, "few", 1_000).await?;
    history.write(VERSIONS, None).await?;
    let (half, _) = admin.export("few").await?;
    history.write(VERSIONS, None).await?;
    let (whole, _) = admin.export("few").await?;
    growth(report, NAMES[5], whole, half, 1.3);
    let last = peak_bytes(stack.worker_pid())?;
    report.ratio(
        NAMES[6],
        (memory / MEBIBYTE) as f64,
        Target::AtMost(256.0),
        &format!(
            "MiB at the peak of an export of {documents} bytes of documents; {} MiB after everything else, an import included",
            last / MEBIBYTE
        ),
    );
    drop(stack);
    if std::env::var_os("KL_BENCH_LARGE").is_some() {
        memory_of_histories(bench, report).await?;
    }
    Ok(())
}

/// The peak of a worker at 100 MB and at 5 GB of documents, out and in: 2 and 100 versions of 50 MB.
async fn memory_of_histories(bench: &Bench, report: &Report) -> Result<()> {
    let stack = bench.stack().await?;
    let admin = Admin::new(&stack);
    let mut history = History::begin(&stack, bench, "large", 100).await?;
    let mut peaks = Vec::new();
    for (versions, copy) in [(2, "copy-of-2"), (VERSIONS, "copy-of-all")] {
        history.write(versions - history.versions, None).await?;
        forget_peak(stack.worker_pid())?;
        let (_, job) = admin.export("large").await?;
        let written = peak_bytes(stack.worker_pid())?;
        forget_peak(stack.worker_pid())?;
        admin.import(&job, copy).await?;
        let read = peak_bytes(stack.worker_pid())?;
        peaks.push((history.bytes, written, read));
    }
    let [(few, written, read), (many, written_all, read_all)] = peaks[..] else {
        return Ok(());
    };
    for (way, small, large) in [("export", written, written_all), ("import", read, read_all)] {
        let made_from = format!(
            "{} MiB at {few} bytes of documents, {} MiB at {many} bytes",
            small / MEBIBYTE,
            large / MEBIBYTE
        );
        report.ratio(
            &format!("archive_worker_{way}_memory_5gb"),
            (large / MEBIBYTE) as f64,
            Target::AtMost(256.0),
            &made_from,
        );
        report.ratio(
            &format!("archive_worker_{way}_memory_growth"),
            large as f64 / small as f64,
            Target::AtMost(1.1),
            &made_from,
        );
    }
    Ok(())
}

fn growth(report: &Report, name: &str, whole: Duration, half: Duration, most: f64) {
    report.ratio(
        name,
        whole.as_secs_f64() / half.as_secs_f64(),
        Target::AtMost(most),
        &format!(
            "{whole:?} for {} versions ÷ {half:?} for {VERSIONS}",
            2 * VERSIONS
        ),
    );
}

/// A state of 50 MB that changes from version to version.
struct History<'a> {
    client: Client,
    name: &'a str,
    document: Vec<u8>,
    /// One instance in so many changes.
    every: usize,
    versions: usize,
    bytes: u64,
}

impl<'a> History<'a> {
    async fn begin(stack: &Stack, bench: &Bench, name: &'a str, every: usize) -> Result<Self> {
        Ok(Self {
            client: Client::new(stack),
            name,
            document: bench.documents.of_megabytes(50).await?,
            every,
            versions: 0,
            bytes: 0,
        })
    }

    /// Adds versions, and writes their documents to files where wanted.
    async fn write(&mut self, count: usize, folder: Option<&Path>) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for _ in 0..count {
            if self.versions > 0 {
                let change = Change {
                    every: self.every,
                    first: self.versions % self.every,
                };
                self.document = changed(&self.document, change)?;
            }
            let posted = Posted::from(self.document.clone());
            self.client.write(self.name, &posted, None).await?;
            self.bytes += self.document.len() as u64;
            if let Some(folder) = folder {
                let file = folder.join(format!("{:03}.tfstate", self.versions));
                std::fs::write(&file, &self.document)?;
                files.push(file);
            }
            self.versions += 1;
        }
        Ok(files)
    }
}

/// Who may export and import.
struct Admin<'a> {
    stack: &'a Stack,
    http: reqwest::Client,
}

impl<'a> Admin<'a> {
    fn new(stack: &'a Stack) -> Self {
        let http = reqwest::Client::new();
        Self { stack, http }
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T> {
        let url = format!("{}{path}", self.stack.url());
        let mut request = self
            .http
            .request(method, &url)
            .bearer_auth(&self.stack.tenancy.admin_token);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await?;
        let status = answer.status();
        let text = answer.text().await?;
        ensure!(status.is_success(), "{url} answered {status}: {text}");
        Ok(serde_json::from_str(&text)?)
    }

    fn place(&self, rest: &str) -> String {
        let tenancy = &self.stack.tenancy;
        format!(
            "/v1/workspaces/{}/environments/{}{rest}",
            tenancy.workspace, tenancy.environment
        )
    }

    /// Exports a state; answers how long a worker was at it.
    async fn export(&self, name: &str) -> Result<(Duration, Job)> {
        let tenancy = &self.stack.tenancy;
        let path = format!(
            "/v1/states/{}/{}/{name}/archive",
            tenancy.workspace, tenancy.environment
        );
        let job: Job = self.send(Method::POST, &path, Some(&json!({}))).await?;
        self.end_of(&job).await
    }

    async fn end_of(&self, job: &Job) -> Result<(Duration, Job)> {
        let path = self.place(&format!("/jobs/{}", job.id));
        loop {
            let job: Job = self.send(Method::GET, &path, None).await?;
            if job.status.has_ended() {
                ensure!(job.status == JobStatus::Done, "a job ended as {job:?}");
                let (started, finished) = (job.started_at, job.finished_at);
                let took = finished.context("no end")? - started.context("no begin")?;
                return Ok((took.to_std()?, job));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn whole(&self, url: &str) -> String {
        if url.starts_with('/') {
            format!("{}{url}", self.stack.url())
        } else {
            url.to_owned()
        }
    }

    /// Imports what a job exported; answers how long a worker was at it.
    async fn import(&self, exported: &Job, name: &str) -> Result<Duration> {
        let path = self.place(&format!("/jobs/{}/download", exported.id));
        let download: Download = self.send(Method::POST, &path, None).await?;
        let bytes = self.http.get(self.whole(&download.url)).send().await?;
        let bytes = bytes.error_for_status()?.bytes().await?;
        let part = usize::try_from(PART_BYTES)?;
        let parts: Vec<String> = bytes.chunks(part).map(digest).collect();
        let wanted = json!({ "name": name, "size_bytes": bytes.len(), "parts": parts });
        let job: Job = self
            .send(Method::POST, &self.place("/imports"), Some(&wanted))
            .await?;
        loop {
            let path = self.place(&format!("/imports/{}/parts", job.id));
            let upload: ImportUpload = self.send(Method::POST, &path, None).await?;
            if upload.parts.is_empty() {
                break;
            }
            for missing in upload.parts {
                let start = usize::try_from(u64::from(missing.number) * PART_BYTES)?;
                let end = start + usize::try_from(missing.size_bytes)?;
                let mut put = self.http.put(self.whole(&missing.url));
                for (name, value) in &missing.headers {
                    put = put.header(name, value);
                }
                put.body(bytes.slice(start..end))
                    .send()
                    .await?
                    .error_for_status()?;
            }
        }
        let path = self.place(&format!("/imports/{}/complete", job.id));
        let job: Job = self.send(Method::POST, &path, None).await?;
        Ok(self.end_of(&job).await?.0)
    }
}

fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `tar` of the files through `zstd -3 --long=27`; answers the time and the size.
fn pack(files: &[PathBuf], to: &Path) -> Result<(Duration, u64)> {
    let began = Instant::now();
    let mut encoder = zstd::stream::write::Encoder::new(BufWriter::new(File::create(to)?), 3)?;
    encoder.long_distance_matching(true)?;
    encoder.window_log(27)?;
    let mut tar = tar::Builder::new(encoder);
    for file in files {
        let name = file.file_name().context("a file without a name")?;
        tar.append_path_with_name(file, name)?;
    }
    tar.into_inner()?.finish()?.flush()?;
    Ok((began.elapsed(), to.metadata()?.len()))
}

/// Decompression and SHA-256 of everything in it.
fn unpack(from: &Path) -> Result<Duration> {
    let began = Instant::now();
    let mut decoder = zstd::stream::read::Decoder::new(File::open(from)?)?;
    decoder.window_log_max(27)?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        let read = decoder.read(&mut buffer)?;
        if read == 0 {
            hash.finalize();
            return Ok(began.elapsed());
        }
        hash.update(&buffer[..read]);
    }
}
