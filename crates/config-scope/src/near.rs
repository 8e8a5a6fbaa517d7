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
            let distance = distance(text, candidate);
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

/// Edits between two texts: insert, delete, replace, or swap two neighbours.
fn distance(one: &str, other: &str) -> usize {
    let one: Vec<char> = one.chars().collect();
    let other: Vec<char> = other.chars().collect();
    let mut rows = vec![vec![0; other.len() + 1]; one.len() + 1];
    rows[0] = (0..=other.len()).collect();
    for line in 1..=one.len() {
        rows[line][0] = line;
        for column in 1..=other.len() {
            let differs = usize::from(one[line - 1] != other[column - 1]);
            let mut best = (rows[line - 1][column - 1] + differs)
                .min(rows[line - 1][column] + 1)
                .min(rows[line][column - 1] + 1);
            let is_swap = line > 1
                && column > 1
                && one[line - 1] == other[column - 2]
                && one[line - 2] == other[column - 1];
            if is_swap {
                best = best.min(rows[line - 2][column - 2] + 1);
            }
            rows[line][column] = best;
        }
    }
    rows[one.len()][other.len()]
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
