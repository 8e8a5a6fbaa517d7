//! The scalar fields at the top of a document, read as Terraform's decoder reads them: names
//! without regard to letter case, the last of a name wins, null leaves a value as it was.

use crate::Refusal;
use crate::json::{decode_string, folds_to};

/// Longest lineage or version text that counts as readable. Terraform's lineages are UUIDs;
/// the limit only keeps a wild document from filling a column.
const MAX_TEXT: usize = 1024;

/// A top-level member Terraform knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    Version,
    TerraformVersion,
    Serial,
    Lineage,
    Outputs,
    Resources,
    CheckResults,
    EncryptionVersion,
    EncryptedData,
}

impl Field {
    const ALL: [Self; 9] = [
        Self::Version,
        Self::TerraformVersion,
        Self::Serial,
        Self::Lineage,
        Self::Outputs,
        Self::Resources,
        Self::CheckResults,
        Self::EncryptionVersion,
        Self::EncryptedData,
    ];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::TerraformVersion => "terraform_version",
            Self::Serial => "serial",
            Self::Lineage => "lineage",
            Self::Outputs => "outputs",
            Self::Resources => "resources",
            Self::CheckResults => "check_results",
            Self::EncryptionVersion => "encryption_version",
            Self::EncryptedData => "encrypted_data",
        }
    }

    /// The field a decoded member name stands for.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|field| folds_to(name, field.as_str()))
    }
}

/// What has been read so far, as raw tokens.
#[derive(Default)]
pub(super) struct Fields<'a> {
    seen: [Option<&'a [u8]>; Field::ALL.len()],
    version: Option<&'a [u8]>,
    serial: Option<&'a [u8]>,
    lineage: Option<&'a [u8]>,
    terraform_version: Option<&'a [u8]>,
    pub(super) encrypted: bool,
    pub(super) ambiguous: Option<String>,
}

/// The version a document claims.
pub(super) enum Version {
    Missing,
    /// Present, but no whole number.
    Unreadable,
    Number(u64),
}

impl<'a> Fields<'a> {
    /// Whether `field` has occurred.
    pub(super) fn has(&self, field: Field) -> bool {
        self.seen[field as usize].is_some()
    }

    pub(super) fn note(&mut self, field: Field, value: &'a [u8]) {
        match self.seen[field as usize].replace(value) {
            Some(before) if before != value && self.ambiguous.is_none() => {
                self.ambiguous = Some(field.as_str().to_owned());
            }
            _ => {}
        }
        let present = (value != b"null").then_some(value);
        match field {
            // Terraform looks for the version with a pointer, which null clears again.
            Field::Version => self.version = present,
            Field::Serial => self.serial = present.or(self.serial),
            Field::Lineage => self.lineage = present.or(self.lineage),
            Field::TerraformVersion => {
                self.terraform_version = present.or(self.terraform_version);
            }
            Field::EncryptionVersion | Field::EncryptedData => {
                self.encrypted |= decode_string(value).is_some_and(|text| !text.is_empty());
            }
            Field::Outputs | Field::Resources | Field::CheckResults => {}
        }
    }

    pub(super) fn version(&self) -> Version {
        match self.version {
            None => Version::Missing,
            Some(token) => whole_number(token).map_or(Version::Unreadable, Version::Number),
        }
    }

    /// The serial if it is readable; 0 when the document has none.
    pub(super) fn serial(&self) -> Option<u64> {
        self.serial.map_or(Some(0), whole_number)
    }

    /// The serial when the document has one and it is readable.
    pub(super) fn serial_present(&self) -> Option<u64> {
        self.serial.and_then(whole_number)
    }

    /// Refuses a whole number that is negative or beyond 64 bits. Texts and fractions pass: they
    /// make the document unreadable, not wrong.
    pub(super) fn check_serial(&self) -> Result<(), Refusal> {
        match self.serial {
            Some(token) if is_integer(token) && whole_number(token).is_none() => {
                let shown = &token[..token.len().min(64)];
                Err(Refusal::SerialOutOfRange {
                    serial: String::from_utf8_lossy(shown).into(),
                })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn lineage(&self) -> Option<String> {
        self.lineage.map_or_else(|| Some(String::new()), short_text)
    }

    pub(super) fn lineage_present(&self) -> Option<String> {
        self.lineage.and_then(short_text)
    }

    pub(super) fn terraform_version(&self) -> Option<String> {
        self.terraform_version
            .map_or_else(|| Some(String::new()), short_text)
    }

    pub(super) fn terraform_version_present(&self) -> Option<String> {
        self.terraform_version.and_then(short_text)
    }
}

fn is_integer(token: &[u8]) -> bool {
    let digits = token.strip_prefix(b"-").unwrap_or(token);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn whole_number(token: &[u8]) -> Option<u64> {
    // JSON has neither a plus sign nor leading zeros, so what parses here is spelled as JSON.
    std::str::from_utf8(token).ok()?.parse().ok()
}

fn short_text(token: &[u8]) -> Option<String> {
    let text = decode_string(token)?;
    (text.len() <= MAX_TEXT && !text.contains('\0')).then(|| text.into_owned())
}
