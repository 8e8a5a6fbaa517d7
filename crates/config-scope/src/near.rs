//! Finds what a misspelt address may have meant.

/// How many are offered.
const MOST: usize = 3;

/// The candidates nearest to `text`, best first; none where nothing is near.
pub(crate) fn nearest<'c>(text: &str, candidates: impl Iterator<Item = &'c str>) -> Vec<String> {
    let name = |address: &str| address.rsplit('.').next().map(str::to_owned);
    let wanted_name = name(text);
    let limit = (text.chars().count() / 3).max(2);
    let mut ranked: Vec<(usize, &str)> = candidates
        .filter_map(|candidate| {
            let distance = strsim::osa_distance(text, candidate);
            // The right name in another module or of another type is near, however long the path.
            let same_name = wanted_name.is_some() && name(candidate) == wanted_name;
            (distance <= limit || same_name).then_some((distance, candidate))
        })
        .collect();
    ranked.sort();
    ranked.dedup();
    ranked
        .into_iter()
        .take(MOST)
        .map(|(_, candidate)| candidate.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_of_the_finger_finds_what_was_meant() {
        let known = [
            "terraform_data.web",
            "module.a.terraform_data.web",
            "terraform_data.db",
            "x.y",
        ];
        assert_eq!(
            nearest("terraform_data.wbe", known.into_iter())[0],
            "terraform_data.web"
        );
        assert_eq!(nearest("aws_instance.web", known.into_iter()).len(), 2);
        assert!(nearest("something.else_entirely", known.into_iter()).is_empty());
    }
}
