//! The program: where it is, what it is, and whether it is recent enough.

use std::process::{Command, Stdio};

use crate::failure::{Failure, Kind, Result};

/// Older ones lack `moved` across packages, plan JSON 1.2, or both.
const OLDEST_TERRAFORM: (u64, u64) = (1, 5);
const OLDEST_OPENTOFU: (u64, u64) = (1, 6);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    Terraform,
    OpenTofu,
}

/// A Terraform or OpenTofu that was asked for its version.
#[derive(Debug, Clone)]
pub(crate) struct Binary {
    pub(crate) program: String,
    pub(crate) product: Product,
    /// As printed, without the `v`.
    pub(crate) version: String,
    number: (u64, u64),
}

impl Binary {
    /// Asks the program for its version.
    ///
    /// # Errors
    /// Usage failures: not there, not Terraform, too old.
    pub(crate) fn find(program: &str) -> Result<Self> {
        let output = Command::new(program)
            .arg("version")
            .env("CHECKPOINT_DISABLE", "1")
            .env_remove("TF_CLI_ARGS")
            .env_remove("TF_CLI_ARGS_version")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| {
                Failure::new(Kind::Usage, error)
                    .context(format!("`{program}` could not be started"))
                    .hint("install Terraform or OpenTofu, or name it: [scope] iac_binary in .kl.toml, or KL_IAC_BINARY")
            })?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let found = Self::parse(program, &printed).ok_or_else(|| {
            Failure::usage(format!(
                "`{program} version` did not answer as Terraform or OpenTofu does"
            ))
            .hint("[scope] iac_binary in .kl.toml or KL_IAC_BINARY names the program")
        })?;
        found.refuse_too_old()?;
        Ok(found)
    }

    fn parse(program: &str, printed: &str) -> Option<Self> {
        let line = printed
            .lines()
            .find(|line| line.starts_with("Terraform v") || line.starts_with("OpenTofu v"))?;
        let (name, version) = line.split_once(" v")?;
        let mut parts = version.split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        Some(Self {
            program: program.to_owned(),
            product: match name {
                "OpenTofu" => Product::OpenTofu,
                _ => Product::Terraform,
            },
            version: version.trim().to_owned(),
            number: (major, minor),
        })
    }

    fn refuse_too_old(&self) -> Result<()> {
        let (name, oldest) = match self.product {
            Product::Terraform => ("Terraform", OLDEST_TERRAFORM),
            Product::OpenTofu => ("OpenTofu", OLDEST_OPENTOFU),
        };
        if self.number >= oldest {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "`{}` is {name} {}, and kl needs {}.{} or newer",
            self.program, self.version, oldest.0, oldest.1
        )))
    }

    /// Whether variables may be given once more when a saved plan is applied: ephemeral ones must.
    pub(crate) fn takes_variables_with_plan(&self) -> bool {
        self.number >= (1, 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_old_ones_refused() {
        let parse = |text: &str| Binary::parse("terraform", text);
        let found = parse("Terraform v1.11.4\non linux_amd64\n").unwrap();
        assert_eq!((found.product, found.number), (Product::Terraform, (1, 11)));
        assert!(found.refuse_too_old().is_ok());
        let found = parse("OpenTofu v1.8.0-beta1\non linux_amd64\n").unwrap();
        assert_eq!((found.product, found.number), (Product::OpenTofu, (1, 8)));
        let old = parse("Terraform v1.3.9\n").unwrap();
        let refusal = old.refuse_too_old().unwrap_err();
        assert!(refusal.causes().next().unwrap().contains("needs 1.5"));
        assert!(parse("GNU bash\n").is_none());
    }
}
