//! What a job takes of memory does not grow with the number of versions.

use protocol::archives::Job;

use crate::documents::document;
use crate::kills::spawn;
use crate::world::{Backend, World, read};

const INSTANCES: usize = 6_000;
/// What may differ from one process to the next: buffers of the runtime, of the allocator, of connections.
const NOISE_BYTES: u64 = 8 << 20;

/// The largest resident size of a worker that does this job alone.
async fn peak_of(world: &World, job: Job) -> u64 {
    let mut worker = spawn(world, None);
    world.done(job.id).await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", worker.id())).unwrap();
    worker.kill().unwrap();
    worker.wait().unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.unwrap().trim().strip_suffix(" kB").unwrap();
    kilobytes.trim().parse::<u64>().unwrap() * 1024
}

/// The peaks of an export and an import of the history as it is now.
async fn peaks(world: &mut World, name: &str) -> [u64; 2] {
    let export = peak_of(world, world.ask_export("prod").await).await;
    world.start_worker();
    let bytes = world.export("prod").await;
    world.stop_workers().await;
    let request = World::import_request(&bytes, name);
    let import: Job = read(world.ask_import(&request).await).await;
    world.upload(import.id, &bytes).await;
    let import = peak_of(world, read(world.complete(import.id).await).await).await;
    [export, import]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_history_takes_no_more_memory_than_a_short_one() {
    let mut world = World::without_worker(Backend::Folder).await;
    // Enough that as many documents are on their way at once as in the long one.
    for serial in 1..=6 {
        let document = document(serial, INSTANCES, INSTANCES / 100);
        world.write("prod", document).await;
    }
    let short = peaks(&mut world, "short").await;
    for serial in 7..=40 {
        let document = document(serial, INSTANCES, INSTANCES / 100);
        world.write("prod", document).await;
    }
    let long = peaks(&mut world, "long").await;
    for (short, long) in short.into_iter().zip(long) {
        let most = short + short / 10 + NOISE_BYTES;
        assert!(long <= most, "{long} bytes after {short}");
    }
}
