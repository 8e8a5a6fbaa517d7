//! Everything that a run needs and that takes no reservation: program, configuration, variables,
//! client.

use std::path::Path;

use config_scope::{Configuration, DiskTree, Flavour, ParseCache};
use protocol::runs::RunKind;

use crate::cli::{ScopeArgs, TerraformArgs};
use crate::client::Client;
use crate::commands::Context;
use crate::config::StateAddress;
use crate::config::values::{Fallback, Span};
use crate::failure::{Failure, Kind, Result};
use crate::run::Interrupts;
use crate::scope::{Asked, refuse_unparsed};
use crate::terraform::{
    Binary, OverrideFile, Variables, ask_missing, override_backend, require_http,
};

/// What is to be prepared for.
pub(in crate::commands) struct ToPrepare<'a> {
    pub(in crate::commands) scope: &'a ScopeArgs,
    pub(in crate::commands) terraform: &'a TerraformArgs,
    /// `kl plan` or the like.
    pub(in crate::commands) command: &'a str,
    pub(in crate::commands) kind: RunKind,
    /// Whether kl runs Terraform itself, and so has to know all variables.
    pub(in crate::commands) runs_terraform: bool,
}

pub(in crate::commands) struct Prepared<'a> {
    pub(in crate::commands) context: &'a Context,
    pub(in crate::commands) client: Client,
    pub(in crate::commands) state: StateAddress,
    pub(in crate::commands) configuration: Configuration,
    pub(in crate::commands) binary: Binary,
    pub(in crate::commands) variables: Variables,
    pub(in crate::commands) interrupts: Interrupts,
    /// Removed with the value.
    _override: Option<OverrideFile>,
    pub(in crate::commands) asked: Asked,
    pub(in crate::commands) terraform: &'a TerraformArgs,
    pub(in crate::commands) kind: RunKind,
    /// The command for the record.
    pub(in crate::commands) command: String,
    pub(in crate::commands) fallback: Fallback,
    pub(in crate::commands) wait: Span,
}

impl<'a> Prepared<'a> {
    /// Reads the configuration, asks the program for its version, and asks for what is missing.
    pub(in crate::commands) async fn new(
        to: ToPrepare<'a>,
        context: &'a Context,
    ) -> Result<Prepared<'a>> {
        if to.terraform.lock.is_some() {
            return Err(Failure::usage(
                "-lock is not for kl: a run reserves its scope, and that cannot be left out",
            )
            .hint("`--wait` says how long to wait for a busy scope"));
        }
        to.terraform.refuse_contradictions()?;
        let client = context.client()?;
        let state = context.state(&client).await?;
        let directory = &context.surroundings.directory;
        let program = context.settings.iac_binary.value.clone();
        OverrideFile::tidy(directory);
        // The program takes as long to say its version as the configuration takes to be read.
        let flavour = flavour_of(&program);
        let version = std::thread::spawn(move || Binary::find(&program));
        let configuration = load(
            directory,
            context.surroundings.terraform_data_dir(),
            flavour,
        )?;
        let binary = version
            .join()
            .map_err(|_| Failure::failed("the program's version could not be read"))??;
        refuse_unparsed(&configuration)?;
        let must_override = require_http(directory, &state, to.terraform.override_backend)?;
        let variables = match to.runs_terraform {
            true => ask_missing(
                &configuration,
                to.terraform.variables(),
                &context.surroundings,
            )?,
            false => Variables::default(),
        };
        // From here on a ^C is passed on and waited for; at the questions above it ends kl at once.
        let interrupts = Interrupts::listen()?;
        let overriding = must_override.then(|| override_backend(directory));
        Ok(Self {
            client,
            state,
            configuration,
            binary,
            variables,
            interrupts,
            _override: overriding.transpose()?,
            asked: to.scope.asked(),
            terraform: to.terraform,
            kind: to.kind,
            command: on_one_line(format!("{}{}", to.command, to.scope.words())),
            fallback: to.scope.fallback.unwrap_or(context.settings.fallback.value),
            wait: to.scope.wait.unwrap_or(context.settings.wait.value),
            context,
        })
    }

    pub(in crate::commands) fn directory(&self) -> &Path {
        &self.context.surroundings.directory
    }
}

/// As the server takes it: at most 200 characters, none of them a control.
pub(super) fn on_one_line(text: String) -> String {
    const LONGEST: usize = 200;
    let text: String = text
        .chars()
        .map(|one| if one.is_control() { ' ' } else { one })
        .collect();
    match text.chars().count() {
        0..=LONGEST => text,
        _ => text.chars().take(LONGEST - 1).chain(['…']).collect(),
    }
}

/// OpenTofu reads `.tofu` files, too; which of the two it is, its name tells before its version.
fn flavour_of(program: &str) -> Flavour {
    let name = Path::new(program).file_name().unwrap_or_default();
    if name.to_string_lossy().contains("tofu") {
        Flavour::OpenTofu
    } else {
        Flavour::Terraform
    }
}

/// Reads the configuration in a directory.
///
/// # Errors
/// Usage failures where there is none.
pub(in crate::commands) fn load(
    directory: &Path,
    data_dir: &Path,
    flavour: Flavour,
) -> Result<Configuration> {
    let tree = DiskTree::new(directory, data_dir);
    Configuration::load_with(&tree, flavour, &ParseCache::new()).map_err(|error| {
        Failure::new(Kind::Usage, error)
            .context(format!(
                "no configuration to work on in {}",
                directory.display()
            ))
            .hint("run kl in the directory of the root module, or give `--chdir DIR`")
    })
}
