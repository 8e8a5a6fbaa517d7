//! Operations that leave everything where it is: forget, restore, patch.

use graph::scope::{Target, addresses_of};
use store::{SliceRow, Version, VersionRef};
use tfstate::{Address, body_with_attribute, instance_members, says_the_same, value_at};

use super::work::{Piece, Place, Verb, Work, cannot};
use super::{Value, Wanted};
use crate::scope::has_rows;
use crate::{EngineError, slice};

pub(super) async fn remove(place: &mut Place<'_>, targets: &[Target]) -> Result<Work, EngineError> {
    let graph = place.graph.realized();
    let addresses: Vec<String> = targets
        .iter()
        .flat_map(|target| addresses_of(graph, target))
        .collect();
    let subject = place.rows(&addresses).await?;
    let mut work = Work::nothing();
    if subject.is_empty() {
        return Ok(work);
    }
    work.verb = Verb::Remove;
    work.before.clone_from(&subject);
    work.subject = subject;
    work.look_around(place.graph);
    if !work.dependents.is_empty() {
        let count = work.dependents.len();
        work.warnings.push(format!(
            "{count} blocks that stay are recorded to depend on what is removed"
        ));
    }
    Ok(work)
}

pub(super) async fn restore(
    place: &mut Place<'_>,
    address: &Address,
    wanted: Wanted,
) -> Result<Work, EngineError> {
    let target = find(place, wanted).await?;
    has_rows(&target)?;
    let addresses = [address.to_string()];
    let mut now = place.rows(&addresses).await?;
    let mut then = slice::rows_at(place.tx, place.state, target.seq, &addresses).await?;
    now.retain(|row| row.kind != "shell");
    then.retain(|row| row.kind != "shell");
    let mut work = Work::nothing();
    work.target = Some(target);
    let places = |rows: &[SliceRow]| -> Vec<(Vec<u8>, Vec<u8>)> {
        let place = |row: &SliceRow| (row.ord.clone(), row.digest.clone());
        rows.iter().map(place).collect()
    };
    work.verb = match (now.is_empty(), then.is_empty()) {
        _ if places(&now) == places(&then) => Verb::NoOp,
        (true, _) => Verb::Restore,
        (false, true) => Verb::Remove,
        (false, false) => Verb::Replace,
    };
    work.after = pieces(&then)?;
    work.before.clone_from(&now);
    work.subject = now;
    work.outcome = then;
    work.look_around(place.graph);
    Ok(work)
}

/// The version that is wanted. A number that may be two things is refused if it is two versions.
async fn find(place: &mut Place<'_>, wanted: Wanted) -> Result<Version, EngineError> {
    let state = place.state;
    let found = match wanted {
        Wanted::Version(wanted) => store::find_version(place.tx, state, wanted).await?,
        Wanted::Serial(serial) => by_serial(place, serial).await?,
        Wanted::Number(number) => {
            let seq = VersionRef::Seq(i64::try_from(number).unwrap_or(i64::MAX));
            let by_seq = store::find_version(place.tx, state, seq).await?;
            match (by_seq, by_serial(place, number).await?) {
                (Some(one), Some(other)) if one.seq != other.seq => {
                    return Err(EngineError::BadRequest(format!(
                        "version {number} and the version with serial {number} are two: write `seq:{number}` or `serial:{number}`"
                    )));
                }
                (one, other) => one.or(other),
            }
        }
    };
    found.ok_or(EngineError::NoSuchVersion)
}

async fn by_serial(place: &mut Place<'_>, serial: u64) -> Result<Option<Version>, EngineError> {
    let seq = store::find_seq_of_serial(place.tx, place.state, serial).await?;
    Ok(match seq {
        Some(seq) => store::find_version(place.tx, place.state, VersionRef::Seq(seq)).await?,
        None => None,
    })
}

pub(super) async fn patch(
    place: &mut Place<'_>,
    address: &Address,
    deposed: Option<&str>,
    values: &[Value],
) -> Result<Work, EngineError> {
    let mut rows = place.rows(&[address.to_string()]).await?;
    rows.retain(|row| row.kind != "shell" && row.deposed.as_deref() == deposed);
    let mut pieces = pieces(&rows)?;
    let piece = pieces.first_mut().ok_or(EngineError::NoSuchInstance)?;
    for value in values {
        set(piece, value)?;
    }
    let mut work = Work::nothing();
    if rows.first().is_some_and(|row| row.body != piece.body) {
        work.verb = Verb::Patch;
    }
    work.outcome = rows
        .iter()
        .zip(&pieces)
        .map(|(row, piece)| SliceRow {
            body: piece.body.clone(),
            ..row.clone()
        })
        .collect();
    work.after = pieces;
    work.before.clone_from(&rows);
    work.subject = rows;
    work.look_around(place.graph);
    Ok(work)
}

/// Changes one value, if it is still the old one.
fn set(piece: &mut Piece, value: &Value) -> Result<(), EngineError> {
    let members = instance_members(&piece.body);
    let attributes = members.and_then(|members| members.attributes);
    let attributes = attributes.ok_or_else(|| cannot("the object has no attributes to patch"))?;
    let now = value_at(attributes, &value.path);
    if !now.is_some_and(|now| says_the_same(now, &value.old)) {
        return Err(EngineError::ValueDiffers(spelled(&value.path)));
    }
    piece.body = body_with_attribute(&piece.body, &value.path, &value.new)
        .ok_or_else(|| cannot("the value cannot be written there"))?;
    Ok(())
}

fn spelled(path: &[tfstate::Step]) -> String {
    let steps = path.iter().map(|step| match step {
        tfstate::Step::Member(name) => name.clone(),
        tfstate::Step::Element(place) => place.to_string(),
    });
    steps.collect::<Vec<_>>().join(".")
}

fn pieces(rows: &[SliceRow]) -> Result<Vec<Piece>, EngineError> {
    let pieces = rows.iter().map(Piece::of).collect::<Option<Vec<_>>>();
    pieces.ok_or_else(|| cannot("a recorded address cannot be read"))
}
