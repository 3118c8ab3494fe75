//! The status of the `ClusterOperator` that oxolm owns on `OpenShift`.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::upgradeable::{AS_EXPECTED, Verdict};

/// What the `ClusterOperator` tells.
#[derive(Debug, Clone, Copy)]
pub struct Operator<'a> {
    /// oxolm's version.
    pub version: &'a str,
    /// Whether the cluster may be updated.
    pub verdict: &'a Verdict,
}

/// The status after `operator`; transition times move only with the status of their condition.
pub fn cluster_operator_status(before: &Value, operator: &Operator<'_>, now: Timestamp) -> Value {
    let verdict = operator.verdict;
    let conditions = [
        ("Available", true, AS_EXPECTED, "oxolm is running"),
        ("Progressing", false, AS_EXPECTED, "All is well"),
        ("Degraded", false, AS_EXPECTED, "All is well"),
        (
            "Upgradeable",
            verdict.upgradeable,
            verdict.reason,
            verdict.message.as_str(),
        ),
    ];
    let now = super::seconds(now);
    let conditions: Vec<Value> = conditions
        .into_iter()
        .map(|(kind, holds, reason, message)| {
            let status = if holds { "True" } else { "False" };
            let since = transition_time(before, kind, status).unwrap_or_else(|| json!(now));
            json!({
                "type": kind,
                "status": status,
                "reason": reason,
                "message": super::message_of(message),
                "lastTransitionTime": since,
            })
        })
        .collect();
    let related = ["clusterextensions", "clustercatalogs", "clusterobjectsets"]
        .map(|resource| json!({ "group": crate::api::GROUP, "resource": resource, "name": "" }));
    json!({
        "conditions": conditions,
        "versions": [{ "name": "operator", "version": operator.version }],
        "relatedObjects": related,
    })
}

fn transition_time(before: &Value, kind: &str, status: &str) -> Option<Value> {
    let conditions = before.get("conditions")?.as_array()?;
    let same = conditions
        .iter()
        .find(|one| one.get("type").and_then(Value::as_str) == Some(kind))?;
    let held = same.get("status").and_then(Value::as_str) == Some(status);
    same.get("lastTransitionTime").filter(|_| held).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upgradeable::{ActiveBundle, Minor, verdict};

    #[test]
    fn upgradeable_carries_the_verdict_and_nothing_moves_without_a_change() {
        let current = Minor::of_cluster_version("4.18.0").unwrap();
        let bundle = ActiveBundle {
            extension: "a".into(),
            bundle: "a.v1".into(),
            properties: Some(r#"[{"type":"olm.maxOpenShiftVersion","value":"4.18"}]"#.into()),
            override_text: None,
        };
        let blocked = verdict(current, &[bundle]);
        let first = cluster_operator_status(
            &Value::Null,
            &Operator {
                version: "1",
                verdict: &blocked,
            },
            Timestamp::from_second(100).unwrap(),
        );
        assert_eq!(first["conditions"][3]["status"], "False");
        assert_eq!(
            first["conditions"][3]["reason"],
            "InstalledOLMOperators_IncompatibleOperatorsInstalled"
        );
        let later = Timestamp::from_second(200).unwrap();
        assert_eq!(
            cluster_operator_status(
                &first,
                &Operator {
                    version: "1",
                    verdict: &blocked
                },
                later
            ),
            first
        );
        let free = verdict(current, &[]);
        let second = cluster_operator_status(
            &first,
            &Operator {
                version: "1",
                verdict: &free,
            },
            later,
        );
        assert_eq!(second["conditions"][3]["status"], "True");
        assert_ne!(
            second["conditions"][3]["lastTransitionTime"],
            first["conditions"][3]["lastTransitionTime"]
        );
        assert_eq!(second["conditions"][0], first["conditions"][0]);
    }
}
