//! HAProxy before the replicas, with the configuration that we ship.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::kld::{Replica, answers_ok};
use super::scratch::Scratch;
use crate::host::install;
use crate::host::process::{Process, StopWith, supervised};
use crate::host::workspace::Workspace;

const READY_WITHIN: Duration = Duration::from_secs(15);

/// The running balancer.
#[derive(Debug)]
pub(crate) struct Balancer {
    process: Process,
    url: String,
}

impl Balancer {
    pub(crate) async fn start(
        workspace: &Workspace,
        scratch: &Scratch,
        port: u16,
        replicas: &[Replica],
    ) -> Result<Self> {
        let program = install::haproxy().context("no `haproxy` on this machine")?;
        let shipped = workspace.root().join("infra/haproxy/haproxy.cfg");
        let template = std::fs::read_to_string(&shipped)
            .with_context(|| format!("cannot read {}", shipped.display()))?;
        let servers: Vec<String> = replicas
            .iter()
            .map(|replica| format!("127.0.0.1:{}", replica.port()))
            .collect();
        let filled = fill(&template, &format!("127.0.0.1:{port}"), &servers)?;
        let config = scratch.path().join("haproxy.cfg");
        std::fs::write(&config, filled)
            .with_context(|| format!("cannot write {}", config.display()))?;

        let process = Process::spawn(
            "haproxy",
            server(&program, &config),
            StopWith::Terminate,
            scratch.path(),
        )?;
        let mut balancer = Self {
            process,
            url: format!("http://127.0.0.1:{port}"),
        };
        let ready = format!("{}/readyz", balancer.url);
        let client = reqwest::Client::new();
        balancer
            .process
            .wait_until(READY_WITHIN, || answers_ok(&client, &ready))
            .await?;
        Ok(balancer)
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

fn server(program: &Path, config: &Path) -> std::process::Command {
    let mut server = supervised(program, None, StopWith::Terminate);
    // -db: stay in the foreground.
    server.arg("-db").arg("-f").arg(config);
    server
}

/// Fills the shipped template: `{{listen}}` once, and the line with `{{server}}` once per replica, where `{{number}}`
/// counts from 1. An unknown or missing placeholder is an error, so template and code cannot drift apart unseen.
fn fill(template: &str, listen: &str, servers: &[String]) -> Result<String> {
    let mut filled = String::with_capacity(template.len() + 128 * servers.len());
    let (mut saw_listen, mut saw_server) = (false, false);
    for line in template.lines() {
        // A comment may explain the placeholders by their names.
        if line.trim_start().starts_with('#') {
            writeln!(filled, "{line}")?;
        } else if line.contains("{{server}}") {
            saw_server = true;
            for (server, number) in servers.iter().zip(1..) {
                let line = line
                    .replace("{{server}}", server)
                    .replace("{{number}}", &number.to_string());
                writeln!(filled, "{line}")?;
            }
        } else {
            saw_listen |= line.contains("{{listen}}");
            let line = line.replace("{{listen}}", listen);
            if line.contains("{{") {
                bail!(
                    "the HAProxy template has a placeholder that nothing fills: {}",
                    line.trim()
                );
            }
            writeln!(filled, "{line}")?;
        }
    }
    if !(saw_listen && saw_server) {
        bail!("the HAProxy template lacks {{{{listen}}}} or {{{{server}}}}");
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers() -> Vec<String> {
        vec!["127.0.0.1:1".to_owned(), "127.0.0.1:2".to_owned()]
    }

    #[test]
    fn a_server_line_is_repeated_for_each_replica() {
        let template = "# {{server}} is a replica\nbind {{listen}}\n  server kld-{{number}} {{server}} check\n";
        let filled = fill(template, "127.0.0.1:80", &servers()).unwrap();
        assert_eq!(
            filled,
            "# {{server}} is a replica\nbind 127.0.0.1:80\n  server kld-1 127.0.0.1:1 check\n  server kld-2 127.0.0.1:2 check\n"
        );
    }

    #[test]
    fn unknown_and_missing_placeholders_are_errors() {
        assert!(
            fill(
                "bind {{listen}}\nmode {{mode}}\nserver {{server}}\n",
                "x",
                &servers()
            )
            .is_err()
        );
        assert!(fill("bind {{listen}}\n", "x", &servers()).is_err());
    }

    #[test]
    fn the_shipped_configuration_can_be_filled() {
        let shipped = include_str!("../../../../infra/haproxy/haproxy.cfg");
        let filled = fill(shipped, "127.0.0.1:80", &servers()).unwrap();
        assert!(filled.contains("127.0.0.1:2"), "{filled}");
    }
}
