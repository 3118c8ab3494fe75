//! Tables of writes and of what the API server says to them.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::future::Future;

use anyhow::bail;
use kube::Error;
use serde_json::Value;

/// A write and the answer that it should get: the changes to a valid object, as a merge patch, and the fields that
/// are refused, with the message of each. No field means that the write is admitted.
pub(crate) struct Row {
    pub(crate) why: &'static str,
    pub(crate) change: Value,
    pub(crate) refused: Vec<(&'static str, &'static str)>,
}

/// A write that is admitted.
pub(crate) fn admitted(why: &'static str, change: Value) -> Row {
    Row {
        why,
        change,
        refused: Vec::new(),
    }
}

/// A write that is refused because of one field.
pub(crate) fn refused(
    why: &'static str,
    change: Value,
    field: &'static str,
    message: &'static str,
) -> Row {
    Row {
        why,
        change,
        refused: vec![(field, message)],
    }
}

/// Writes `valid` with the change of each row, and reports every row whose answer is another one.
///
/// # Errors
/// The rows that were answered otherwise.
pub(crate) async fn check<T, F>(
    valid: &Value,
    rows: Vec<Row>,
    write: impl Fn(Value) -> F,
) -> anyhow::Result<()>
where
    T: Debug,
    F: Future<Output = Result<T, Error>>,
{
    let mut wrong = Vec::new();
    for row in rows {
        let mut object = valid.clone();
        json_patch::merge(&mut object, &row.change);
        let answer = match write(object).await {
            Ok(_) => BTreeSet::new(),
            Err(Error::Api(status)) => causes(&status),
            Err(error) => bail!("{}: {error}", row.why),
        };
        let is_as_expected = answer.len() == row.refused.len()
            && row.refused.iter().all(|(field, message)| {
                answer.iter().any(|(found, text)| {
                    found == field && (text == message || text.ends_with(&format!(": {message}")))
                })
            });
        if !is_as_expected {
            wrong.push(format!(
                "{}:\n  expected {:?}\n  answered {answer:?}",
                row.why, row.refused
            ));
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        bail!("{}", wrong.join("\n"))
    }
}

/// The fields and messages of a refusal, or its message alone where it names no field.
///
/// That further rules were not checked is left out: it follows from the rest.
fn causes(status: &kube::core::Status) -> BTreeSet<(String, String)> {
    let causes: BTreeSet<_> = status
        .details
        .iter()
        .flat_map(|details| &details.causes)
        .filter(|cause| {
            !cause
                .message
                .contains("some validation rules were not checked")
        })
        .map(|cause| (cause.field.clone(), cause.message.clone()))
        .collect();
    if causes.is_empty() {
        BTreeSet::from([(String::new(), status.message.clone())])
    } else {
        causes
    }
}
