//! Tags: names that people give to versions.

use protocol::{Code, StateName, VersionId};
use store::VersionRef;
use store::tags::Tag;

use crate::lock::same_spelling;
use crate::{Caller, Engine, EngineError, audit};

/// The longest description, in characters.
const LONGEST_DESCRIPTION: usize = 1_000;

/// Whether a text can be a tag: a letter, then letters, digits, `.`, `_`, `-`, and nothing that names a version in another
/// way.
#[must_use]
pub fn is_tag(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.len() <= 128
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(plain)
        && !matches!(text, "head" | "current")
        && text.parse::<VersionId>().is_err()
}

fn no_tag(text: &str) -> EngineError {
    EngineError::Rejected(
        Code::InvalidName,
        format!(
            "`{text}` cannot be a tag: a tag is a letter, then letters, digits, `.`, `_`, `-`, 128 characters at most, \
             and neither `head` nor the id of a version"
        ),
    )
}

impl Engine {
    /// The tags of a state, by name.
    pub async fn list_tags(
        &self,
        caller: &Caller,
        name: &StateName,
    ) -> Result<Vec<Tag>, EngineError> {
        let mut tx = self.begin_read(caller).await?;
        let state = store::find_state(&mut tx, caller.environment(), name)
            .await?
            .ok_or(EngineError::NoState)?;
        same_spelling(&state, name)?;
        let tags = store::tags::list_tags(&mut tx, state.id).await?;
        tx.commit().await?;
        Ok(tags)
    }

    /// The number of the version that a tag names.
    pub async fn tagged_version(
        &self,
        caller: &Caller,
        name: &StateName,
        tag: &str,
    ) -> Result<VersionRef, EngineError> {
        let mut tx = self.begin_read(caller).await?;
        let state = store::find_state(&mut tx, caller.environment(), name)
            .await?
            .ok_or(EngineError::NoState)?;
        same_spelling(&state, name)?;
        let tag = store::tags::find_tag(&mut tx, state.id, tag).await?;
        tx.commit().await?;
        tag.map(|tag| VersionRef::Seq(tag.seq))
            .ok_or(EngineError::NoSuchVersion)
    }

    /// Gives a version a name. A tag that names another version is moved only where that is asked for; the same again is no
    /// change.
    pub async fn set_tag(
        &self,
        caller: &Caller,
        name: &StateName,
        tag: &str,
        wanted: VersionRef,
        description: Option<&str>,
        may_move: bool,
    ) -> Result<Tag, EngineError> {
        if !is_tag(tag) {
            return Err(no_tag(tag));
        }
        let fits = |text: &&str| (1..=LONGEST_DESCRIPTION).contains(&text.chars().count());
        if !description.as_ref().is_none_or(fits) {
            return Err(EngineError::Rejected(
                Code::InvalidRequest,
                format!("a description has 1 to {LONGEST_DESCRIPTION} characters"),
            ));
        }
        let mut tx = self.begin(caller).await?;
        let state = store::find_state(&mut tx, caller.environment(), name)
            .await?
            .ok_or(EngineError::NoState)?;
        same_spelling(&state, name)?;
        // Tags of one state are set one after the other.
        let state = store::lock_state(&mut tx, state.id).await?;
        let version = store::find_version(&mut tx, state.id, wanted)
            .await?
            .ok_or(EngineError::NoSuchVersion)?;
        let before = store::tags::find_tag(&mut tx, state.id, tag).await?;
        if let Some(before) = &before {
            let same = before.seq == version.seq && before.description.as_deref() == description;
            if same {
                return Ok(before.clone());
            }
            if before.seq != version.seq && !may_move {
                return Err(EngineError::Rejected(
                    Code::TagExists,
                    format!("the tag `{tag}` names version {} already", before.seq),
                ));
            }
        }
        let set = store::tags::set_tag(
            &mut tx,
            state.id,
            tag,
            version.seq,
            description,
            caller.display(),
            None,
        )
        .await?;
        let what = audit::What::Tagged {
            tag,
            seq: version.seq,
            before: before.map(|before| before.seq),
        };
        audit::record(&mut tx, caller, state.id, &state.name, what).await?;
        tx.commit().await?;
        Ok(set)
    }

    /// Takes a name away from its version.
    pub async fn unset_tag(
        &self,
        caller: &Caller,
        name: &StateName,
        tag: &str,
    ) -> Result<(), EngineError> {
        let mut tx = self.begin(caller).await?;
        let state = store::find_state(&mut tx, caller.environment(), name)
            .await?
            .ok_or(EngineError::NoState)?;
        same_spelling(&state, name)?;
        let state = store::lock_state(&mut tx, state.id).await?;
        let found = store::tags::find_tag(&mut tx, state.id, tag)
            .await?
            .ok_or_else(|| EngineError::Rejected(Code::NotFound, "there is no such tag".into()))?;
        store::tags::delete_tag(&mut tx, state.id, tag).await?;
        let what = audit::What::Untagged {
            tag,
            seq: found.seq,
        };
        audit::record(&mut tx, caller, state.id, &state.name, what).await?;
        Ok(tx.commit().await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_no_version_in_another_way() {
        for sound in ["v1", "before-the-move", "Release_2026.11"] {
            assert!(is_tag(sound), "{sound}");
        }
        let long = "a".repeat(129);
        let id = VersionId::from_uuid(uuid::Uuid::now_v7());
        for odd in [
            "",
            "1st",
            "-a",
            "@1",
            "a b",
            "é",
            "head",
            "current",
            "a/b",
            &long,
            &id.to_string(),
        ] {
            assert!(!is_tag(odd), "{odd}");
        }
    }
}
