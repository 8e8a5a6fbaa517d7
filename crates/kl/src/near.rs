//! What somebody may have meant by a name that there is not.

/// More than these are no help.
const MOST: usize = 3;
/// Names that are less alike have nothing to do with each other.
const ALIKE: f64 = 0.8;

/// Of the names there are, those that are most like the one that was typed, the likeliest first.
pub(crate) fn near<'n>(typed: &str, names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let mut alike: Vec<(f64, &str)> = names
        .into_iter()
        .map(|name| (strsim::jaro_winkler(typed, name), name))
        .filter(|(likeness, _)| *likeness > ALIKE)
        .collect();
    alike.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    alike.dedup_by_key(|(_, name)| *name);
    alike.into_iter().take(MOST).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_comes_first_and_strangers_do_not_come() {
        let names = [
            "aws_vpc.main",
            "aws_vpc.mail",
            "aws_vpc.main",
            "null_resource.z",
        ];
        assert_eq!(
            near("aws_vpc.mian", names),
            ["aws_vpc.main", "aws_vpc.mail"]
        );
        assert!(near("module.x", names).is_empty());
    }
}
