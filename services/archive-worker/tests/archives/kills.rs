//! Workers are killed without warning. A few times here; `KL_KILLS=50` makes it fifty.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use protocol::JobId;
use protocol::archives::{Job, JobStatus};

use crate::documents::document;
use crate::world::{Backend, World, read};

const VERSIONS: u64 = 12;

fn kills() -> usize {
    std::env::var("KL_KILLS").map_or(4, |kills| kills.parse().unwrap())
}

/// A worker as a process of its own, none of whose files may grow beyond so many blocks of half a kilobyte or more.
pub(crate) fn spawn(world: &World, largest_file: Option<u32>) -> Child {
    let program = env!("CARGO_BIN_EXE_archive-worker");
    let mut command = match largest_file {
        None => Command::new(program),
        Some(blocks) => {
            let mut shell = Command::new("/bin/sh");
            let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\"");
            shell.args(["-c", &limited, program]);
            shell
        }
    };
    command
        .env_clear()
        .envs(world.settings.iter().map(|(key, value)| (key, value)))
        .env(
            "KL_DATABASE_URL",
            store::testing::expose(&world.app.database.worker_url()),
        )
        .env("KL_METRICS_LISTEN", "127.0.0.1:0")
        .env("KL_JOB_LEASE_SECONDS", "1")
        .env("KL_JOB_ABANDONMENTS", "1000")
        .env("KL_LOG", "warn")
        // What it takes of memory is compared, and should not depend on the cores of the machine.
        .env("TOKIO_WORKER_THREADS", "2")
        .env("MALLOC_ARENA_MAX", "2")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Waits until a number out of the database is zero.
async fn until_zero(world: &World, query: &'static str) {
    let zero = async {
        while world.count(query).await > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), zero)
        .await
        .expect("it becomes zero");
}

async fn ask_import(world: &World, bytes: &[u8], name: &str) -> JobId {
    let job: Job = read(world.ask_import(&World::import_request(bytes, name)).await).await;
    world.upload(job.id, bytes).await;
    read::<Job>(world.complete(job.id).await).await.id
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_workers_leave_each_job_done_exactly_once_and_nothing_else() {
    let leases = "SELECT count(*) FROM job_queue WHERE lease_until > now() AND task <> 'clean'";
    // The database may still be at the last statement of a worker that is gone.
    let statements = "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND usename = 'kl_test_worker' AND state <> 'idle'";
    for backend in [Backend::Folder, Backend::S3] {
        let mut world = World::start(backend).await;
        for serial in 1..=VERSIONS {
            world.write("prod", document(serial, 1_500, 400)).await;
        }
        let bytes = world.export("prod").await;
        world.stop_workers().await;

        let mut exports = vec![world.ask_export("prod").await.id];
        let mut imports = vec![ask_import(&world, &bytes, "copy0").await];
        let (mut deaths, mut at_work) = (0, 0);
        // Where a machine is fast a job may be over before its worker dies: then some more of them have to.
        while deaths < kills() || at_work == 0 {
            assert!(deaths < 20 * kills(), "no worker was killed at work");
            deaths += 1;
            // The next one finds nothing to do before the lease of a dead one is over.
            until_zero(&world, leases).await;
            let mut worker = spawn(&world, None);
            let (export, import) = (*exports.last().unwrap(), *imports.last().unwrap());
            let began = async {
                while world.count(leases).await == 0 {
                    let (export, import) = (world.job(export).await, world.job(import).await);
                    if export.status.has_ended() && import.status.has_ended() {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            let _ = tokio::time::timeout(Duration::from_secs(30), began).await;
            // Soon after it began more often than late.
            let life = Duration::from_millis(800).mul_f64(rand::random::<f64>().powi(3));
            tokio::time::sleep(life).await;
            at_work += u32::from(world.count(leases).await > 0);
            worker.kill().unwrap();
            worker.wait().unwrap();
            until_zero(&world, statements).await;
            // Whatever is half done, nobody sees half a state.
            let (last, done) = (imports.len() - 1, world.job(*imports.last().unwrap()).await);
            let name = format!("copy{last}");
            let visible = world.status_of(&name).await;
            match done.status {
                JobStatus::Done => assert_eq!(visible, 200, "{name}"),
                _ => assert_eq!(visible, 409, "{name}: {done:?}"),
            }
            if done.status.has_ended() {
                let next = format!("copy{}", imports.len());
                imports.push(ask_import(&world, &bytes, &next).await);
            }
            if world.job(*exports.last().unwrap()).await.status.has_ended() {
                exports.push(world.ask_export("prod").await.id);
            }
        }
        world.start_worker();
        for id in exports.iter().chain(&imports) {
            world.done(*id).await;
        }
        for index in 0..imports.len() {
            let name = format!("copy{index}");
            let seqs: Vec<i64> = world.versions(&name).await.iter().map(|v| v.seq).collect();
            assert_eq!(
                seqs,
                (1..=VERSIONS.cast_signed()).collect::<Vec<_>>(),
                "{name}"
            );
            for seq in [1, VERSIONS / 2, VERSIONS] {
                let found = world.document(&name, &seq.to_string()).await;
                assert_eq!(found, document(seq, 1_500, 400), "{name} {seq}");
            }
        }
        let audited = world.audited().await;
        let times = |action: &str| audited.iter().filter(|done| *done == action).count();
        assert_eq!(times("archive.exported"), exports.len() + 1);
        assert_eq!(times("archive.imported"), imports.len());
        assert_eq!(
            world
                .count("SELECT count(*) FROM states WHERE lifecycle = 'importing'")
                .await,
            0
        );
        world.cleaned().await;
    }
}
