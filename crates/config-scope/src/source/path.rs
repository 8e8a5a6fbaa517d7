//! Paths as Terraform joins them: with slashes, relative to the root module, cleaned as text.

use std::fmt;

/// A file or directory, relative to the root module (or absolute, as a manifest may say).
///
/// `.` and `..` are resolved as text, the way Terraform joins a module's source to its caller's
/// directory: a symbolic link in the middle is not followed first. The root module is `.`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SourcePath(String);

impl SourcePath {
    /// Cleans `text`. Back slashes count as slashes: Terraform on Windows writes them in
    /// manifests, and no portable configuration has them in a name.
    pub fn new(text: &str) -> Self {
        let text = text.replace('\\', "/");
        let absolute = text.starts_with('/');
        let mut steps: Vec<&str> = Vec::new();
        for step in text.split('/') {
            match step {
                "" | "." => {}
                ".." if steps.last().is_some_and(|last| *last != "..") => _ = steps.pop(),
                ".." if absolute => {}
                _ => steps.push(step),
            }
        }
        let joined = steps.join("/");
        Self(match (absolute, joined.is_empty()) {
            (true, _) => format!("/{joined}"),
            (false, true) => ".".to_owned(),
            (false, false) => joined,
        })
    }

    /// The directory of the root module.
    pub fn root() -> Self {
        Self(".".to_owned())
    }

    /// `other` as seen from this directory; an absolute `other` stays what it is.
    pub fn join(&self, other: &str) -> Self {
        if other.starts_with(['/', '\\']) {
            return Self::new(other);
        }
        Self::new(&format!("{}/{other}", self.0))
    }

    /// The directory this stands in.
    pub fn parent(&self) -> Self {
        match self.0.rsplit_once('/') {
            Some(("", _)) => Self("/".to_owned()),
            Some((directory, _)) => Self(directory.to_owned()),
            None => Self::root(),
        }
    }

    pub fn file_name(&self) -> &str {
        self.0
            .rsplit_once('/')
            .map_or(self.0.as_str(), |(_, name)| name)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `other` is this path or stands somewhere beneath it.
    pub fn contains(&self, other: &Self) -> bool {
        if self.0 == "." {
            return !other.0.starts_with('/') && other.0 != ".." && !other.0.starts_with("../");
        }
        other
            .0
            .strip_prefix(&self.0)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || self.0.ends_with('/'))
    }
}

impl fmt::Display for SourcePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::SourcePath;

    #[test]
    fn paths_are_cleaned_as_text() {
        for (text, clean) in [
            ("", "."),
            ("./", "."),
            ("a/../b/./c.tf", "b/c.tf"),
            ("../../x", "../../x"),
            ("a/../../x", "../x"),
            ("/a/../../b", "/b"),
            ("mod\\main.tf", "mod/main.tf"),
        ] {
            assert_eq!(SourcePath::new(text).as_str(), clean, "{text}");
        }
    }

    #[test]
    fn a_join_climbs_and_an_absolute_path_wins() {
        let module = SourcePath::new("modules/a");
        assert_eq!(module.join("../b").as_str(), "modules/b");
        assert_eq!(module.join("../../../b").as_str(), "../b");
        assert_eq!(module.join("/abs").as_str(), "/abs");
        assert_eq!(SourcePath::root().join("x").as_str(), "x");
    }

    #[test]
    fn a_directory_contains_what_stands_beneath_it() {
        let module = SourcePath::new("mod");
        assert!(module.contains(&SourcePath::new("mod/a.tf")));
        assert!(!module.contains(&SourcePath::new("mod2/a.tf")));
        assert!(SourcePath::root().contains(&SourcePath::new("a.tf")));
        assert!(!SourcePath::root().contains(&SourcePath::new("../a.tf")));
    }
}
