//! Three ways to plan one team's file of a state that many teams share.
//!
//! The http lane is plain terraform, whole and with `-target`. The local slice is what a client can do without help from the
//! service: fetch the whole document, cut the slice out, plan on that. The native lane is `kl plan -f`. Each plans the same
//! change with the same terraform.

mod configuration;
mod process;
mod wire;

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use flate2::read::GzDecoder;
use serde_json::Value;
use tokio::process::Command;

use super::Bench;
use super::client::Client;
use super::documents::{Generated, Posted};
use super::report::{Report, Target, median, ms};
use crate::host::foreground;
use crate::host::workspace::Profile;
use crate::terraform::{BACKEND, Backend, Directory, Terraform};

pub(super) const NAMES: &[&str] = &[
    "native_plan_to_full_plan",
    "native_plan_to_targeted_plan",
    "native_plan_wire_bytes",
    "native_plan_own_time",
];

/// Of these sizes the last is what the figures are for.
const SIZES: [usize; 2] = [1_000, 10_000];
/// Too long for every day: a full plan takes terraform minutes.
const LARGE: usize = 100_000;
const ROUNDS: usize = 3;

pub(super) async fn measure(bench: &Bench, report: &Report) -> Result<()> {
    let terraform = Terraform::find()?;
    let wire = wire::Wire::lay().await?;
    let stack = bench.stack_behind(wire.port()).await?;
    wire.connect(stack.url())?;
    let mut sizes = SIZES.to_vec();
    if std::env::var_os("KL_BENCH_LARGE").is_some() {
        sizes.push(LARGE);
    }
    let client = Client::new(&stack);
    for size in sizes {
        let name = format!("lanes-{size}");
        let generated = bench.documents.configuration(size).await?;
        let document = std::fs::read(&generated.state)?;
        client.write(&name, &Posted::from(document), None).await?;
        configuration::change(&generated)?;
        let lanes = Lanes {
            terraform: &terraform,
            kl: bench.workspace.bin_dir(Profile::Release).join("kl"),
            backend: stack.tenancy.writes(&wire.url(), &name),
            wire: &wire,
            generated,
        };
        let measured = lanes.measure().await?;
        measured.note(report, size);
        if size == SIZES[1] {
            measured.figures(report);
        }
    }
    Ok(())
}

/// One way to plan, measured.
#[derive(Default)]
struct Lane {
    took_ms: Vec<f64>,
    wire_bytes: u64,
    peak_bytes: u64,
}

struct Measured {
    full: Lane,
    targeted: Lane,
    local: Lane,
    native: Lane,
    /// The part of the native plan that was terraform.
    terraform_ms: Vec<f64>,
}

impl Measured {
    fn lanes(&self) -> [(&'static str, &Lane); 4] {
        [
            ("http lane, whole", &self.full),
            ("http lane, -target", &self.targeted),
            ("slice cut locally", &self.local),
            ("native lane", &self.native),
        ]
    }

    fn note(&self, report: &Report, size: usize) {
        for (name, lane) in self.lanes() {
            let value = format!(
                "{:.2} s, {:.1} kB on the wire, {:.0} MB of memory at most",
                median(&lane.took_ms) / 1e3,
                lane.wire_bytes as f64 / 1e3,
                lane.peak_bytes as f64 / 1e6
            );
            report.note(
                &format!("plan of one file of {size} instances, {name}"),
                &value,
            );
        }
    }

    fn figures(&self, report: &Report) {
        let native = median(&self.native.took_ms);
        let made_from = |other: f64, what: &str| {
            format!("{native:.0} ms by `kl plan -f` ÷ {other:.0} ms by {what}, medians of {ROUNDS}")
        };
        let full = median(&self.full.took_ms);
        report.ratio(
            NAMES[0],
            native / full,
            Target::AtMost(0.15),
            &made_from(full, "`terraform plan`"),
        );
        let targeted = median(&self.targeted.took_ms);
        report.ratio(
            NAMES[1],
            native / targeted,
            Target::AtMost(0.8),
            &made_from(targeted, "`terraform plan -target=…`, the same targets"),
        );
        let (few, many) = (self.native.wire_bytes as f64, self.full.wire_bytes as f64);
        report.ratio(
            NAMES[2],
            few / many,
            Target::AtMost(0.02),
            &format!("{few:.0} bytes on the wire by `kl plan -f` ÷ {many:.0} by `terraform plan`, both ways, compressed as they ask"),
        );
        let terraform = median(&self.terraform_ms);
        report.ratio(
            NAMES[3],
            (native - terraform) / terraform,
            Target::AtMost(0.15),
            &format!(
                "{:.0} ms of kl's own ÷ {terraform:.0} ms of its terraform",
                native - terraform
            ),
        );
    }
}

struct Lanes<'a> {
    terraform: &'a Terraform,
    kl: std::path::PathBuf,
    backend: Backend,
    wire: &'a wire::Wire,
    generated: Generated,
}

impl Lanes<'_> {
    async fn measure(&self) -> Result<Measured> {
        let shared = self.directory(Some(self.backend.clone())).await?;
        shared.write("backend.tf", BACKEND)?;
        shared.run_ok(&["init", "-input=false"]).await?;
        let alone = self.directory(None).await?;
        alone.run_ok(&["init", "-input=false"]).await?;
        let watch = self.watched_terraform()?;

        let targets = configuration::targets();
        let mut plan = vec!["plan", "-input=false"];
        let mut measured = Measured {
            full: Lane::default(),
            targeted: Lane::default(),
            local: Lane::default(),
            native: Lane::default(),
            terraform_ms: Vec::new(),
        };
        // In turns, so that the mood of the machine meets all alike.
        for _ in 0..ROUNDS {
            self.run(shared.command(&plan), &mut measured.full).await?;
            plan.extend(targets.iter().map(String::as_str));
            self.run(shared.command(&plan), &mut measured.targeted)
                .await?;
            plan.truncate(2);
            self.cut_and_plan(&alone, &targets, &mut measured.local)
                .await?;
            let told = self
                .run(self.kl(&shared, &watch), &mut measured.native)
                .await?;
            ensure!(!told.is_empty(), "kl showed no plan");
            measured.terraform_ms.push(watch.take_ms()?);
        }
        Ok(measured)
    }

    /// The configuration with one file changed.
    async fn directory(&self, backend: Option<Backend>) -> Result<Directory> {
        let directory = self.terraform.directory(backend)?;
        let mut copy = Command::new("cp");
        copy.arg("-a")
            .arg(self.generated.directory.join("."))
            .arg(directory.path());
        foreground::output(copy).await?;
        Ok(directory)
    }

    async fn run(&self, command: Command, lane: &mut Lane) -> Result<String> {
        self.wire.take_bytes();
        let ran = process::run(command).await?;
        lane.took_ms.push(ms(ran.took));
        lane.wire_bytes = self.wire.take_bytes();
        lane.peak_bytes = lane.peak_bytes.max(ran.peak_bytes);
        Ok(ran.stdout)
    }

    /// Fetches the whole document, keeps what the targets need, and plans on that.
    async fn cut_and_plan(
        &self,
        alone: &Directory,
        targets: &[String],
        lane: &mut Lane,
    ) -> Result<()> {
        self.wire.take_bytes();
        let began = Instant::now();
        let request = reqwest::Client::new().get(&self.backend.address);
        let answer = request
            .bearer_auth(&self.backend.token)
            .header("accept-encoding", "gzip")
            .send()
            .await?;
        let packed = answer.bytes().await?;
        let mut document: Value = serde_json::from_reader(GzDecoder::new(&packed[..]))?;
        configuration::cut(&mut document)?;
        alone.write("slice.tfstate", &document.to_string())?;
        let mut plan = vec!["plan", "-input=false", "-state=slice.tfstate"];
        plan.extend(targets.iter().map(String::as_str));
        let ran = process::run(alone.command(&plan)).await?;
        lane.took_ms.push(ms(began.elapsed()));
        lane.wire_bytes = self.wire.take_bytes();
        lane.peak_bytes = lane.peak_bytes.max(ran.peak_bytes);
        Ok(())
    }

    fn kl(&self, shared: &Directory, watch: &Watch) -> Command {
        let mut command = Command::new(&self.kl);
        command
            .arg("plan")
            .args(["-f", &configuration::file_name()])
            .current_dir(shared.path())
            .env("KL_STATE_URL", &self.backend.address)
            .env("KL_TOKEN", &self.backend.token)
            .env("PATH", watch.path())
            .env("NO_COLOR", "1");
        crate::stack::environment::calm_terraform(&mut command);
        command
    }

    /// A terraform that writes down how long it took.
    fn watched_terraform(&self) -> Result<Watch> {
        let dir = tempfile::Builder::new().prefix("klwatch.").tempdir()?;
        let times = dir.path().join("times");
        let script = format!(
            "#!/bin/sh\nbegan=$(date +%s%N)\n'{}' \"$@\"\ncode=$?\necho $(( $(date +%s%N) - began )) >> '{}'\nexit $code\n",
            self.terraform.program().display(),
            times.display()
        );
        let program = dir.path().join("terraform");
        std::fs::write(&program, script)?;
        let runnable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, runnable)?;
        Ok(Watch { dir, times })
    }
}

/// Where the watched terraform is, and what it wrote down.
struct Watch {
    dir: tempfile::TempDir,
    times: std::path::PathBuf,
}

impl Watch {
    fn path(&self) -> std::ffi::OsString {
        let mut path = self.dir.path().as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        path
    }

    /// How long terraform ran since the last call, all runs together.
    fn take_ms(&self) -> Result<f64> {
        let times = std::fs::read_to_string(&self.times).context("kl ran no terraform")?;
        std::fs::remove_file(&self.times)?;
        let nanoseconds: u64 = times
            .lines()
            .filter_map(|line| line.trim().parse::<u64>().ok())
            .sum();
        Ok(nanoseconds as f64 / 1e6)
    }
}
