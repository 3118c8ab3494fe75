//! Why a workload is not available: what its Pods say. For people who ask; no revision depends on it.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use kube::core::Selector;
use serde_json::Value;

use crate::api::object::Gvk;

/// The label selector of a workload's Pods; none for what has no Pods.
pub fn selector_of(gvk: &Gvk, workload: &Value) -> Option<Selector> {
    let has_pods = matches!(
        (gvk.group.as_str(), gvk.kind.as_str()),
        (
            "apps",
            "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet"
        ) | ("batch", "Job")
    );
    let selector = workload.pointer("/spec/selector").filter(|_| has_pods)?;
    // The API server's own answer.
    let selector: LabelSelector = serde_json::from_value(selector.clone()).ok()?;
    Selector::try_from(selector).ok()
}

/// What is wrong with the first of `pods` that has something to say, by name: `Pod NAME: container NAME: REASON: MESSAGE`.
pub fn trouble(pods: Vec<Pod>) -> Option<String> {
    let mut pods = pods;
    pods.sort_by_cached_key(Pod::name_any);
    pods.iter().find_map(|pod| {
        let why = of(pod)?;
        Some(format!("Pod {}: {why}", pod.name_any()))
    })
}

fn of(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let containers = || {
        let inits = status.init_container_statuses.iter().flatten();
        inits.chain(status.container_statuses.iter().flatten())
    };
    let of_container = || {
        containers().find_map(|container| {
            let why = container_trouble(container)?;
            Some(format!("container {}: {why}", container.name))
        })
    };
    let unscheduled = || {
        let mut conditions = status.conditions.iter().flatten();
        let unmet = conditions.find(|one| one.type_ == "PodScheduled" && one.status == "False")?;
        Some(joined(unmet.reason.as_deref(), unmet.message.as_deref()))
    };
    // Evicted, or refused by the node.
    let failed = || {
        let is_failed = status.phase.as_deref() == Some("Failed");
        is_failed.then(|| joined(status.reason.as_deref(), status.message.as_deref()))
    };
    of_container()
        .or_else(unscheduled)
        .or_else(failed)
        .filter(|why| !why.is_empty())
}

fn container_trouble(container: &ContainerStatus) -> Option<String> {
    let ended = |state: &Option<ContainerState>| {
        let terminated = state.as_ref()?.terminated.as_ref()?;
        (terminated.exit_code != 0).then(|| {
            let reason = terminated.reason.as_deref().unwrap_or("Error");
            format!("{reason}, exit code {}", terminated.exit_code)
        })
    };
    let last = ended(&container.last_state).map(|ended| {
        let times = container.restart_count;
        format!("ended with {ended}; restarted {times} times")
    });
    let state = container.state.as_ref()?;
    // What every container waits for at first is no trouble.
    let usual = ["ContainerCreating", "PodInitializing"];
    let waiting = state.waiting.as_ref();
    if let Some(waiting) =
        waiting.filter(|it| !usual.contains(&it.reason.as_deref().unwrap_or(usual[0])))
    {
        let why = joined(waiting.reason.as_deref(), waiting.message.as_deref());
        return Some(last.map_or(why.clone(), |last| format!("{why} ({last})")));
    }
    ended(&container.state).or_else(|| {
        let is_unready = state.running.is_some() && !container.ready;
        is_unready.then(|| match last {
            Some(last) => format!("runs and is not ready ({last})"),
            None => "runs and is not ready".to_owned(),
        })
    })
}

fn joined(reason: Option<&str>, message: Option<&str>) -> String {
    let parts = [reason, message].into_iter().flatten();
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(status: &Value) -> Option<String> {
        let pod = |name: &str, status: &Value| {
            serde_json::from_value(json!({"metadata": {"name": name}, "status": status})).unwrap()
        };
        let fine = json!({"phase": "Running", "containerStatuses": [{
            "name": "m", "image": "i", "imageID": "", "ready": true, "restartCount": 9, "state": {"running": {}},
            "lastState": {"terminated": {"exitCode": 1}},
        }]});
        trouble(vec![pod("b", status), pod("a", &fine)])
    }

    fn container(state: &Value, last: &Value) -> Value {
        json!({"containerStatuses": [{
            "name": "m", "image": "i", "imageID": "", "ready": false, "restartCount": 3, "state": state, "lastState": last,
        }]})
    }

    #[test]
    fn a_pod_says_what_is_wrong() {
        let none = json!({});
        let crashed = json!({"terminated": {"exitCode": 2, "reason": "Error"}});
        for (status, expected) in [
            (
                container(
                    &json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"x\""}}),
                    &none,
                ),
                Some("Pod b: container m: ImagePullBackOff: Back-off pulling image \"x\""),
            ),
            (
                container(
                    &json!({"waiting": {"reason": "CrashLoopBackOff"}}),
                    &crashed,
                ),
                Some(
                    "Pod b: container m: CrashLoopBackOff (ended with Error, exit code 2; restarted 3 times)",
                ),
            ),
            (
                container(&crashed, &none),
                Some("Pod b: container m: Error, exit code 2"),
            ),
            (
                container(&json!({"running": {}}), &crashed),
                Some(
                    "Pod b: container m: runs and is not ready (ended with Error, exit code 2; restarted 3 times)",
                ),
            ),
            (
                container(&json!({"running": {}}), &none),
                Some("Pod b: container m: runs and is not ready"),
            ),
            (
                container(&json!({"waiting": {"reason": "ContainerCreating"}}), &none),
                None,
            ),
            (container(&json!({"waiting": {}}), &none), None),
            (
                container(&json!({"terminated": {"exitCode": 0}}), &none),
                None,
            ),
            (
                json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]}),
                Some("Pod b: Unschedulable: 0/1 nodes"),
            ),
            (
                json!({"phase": "Failed", "reason": "Evicted", "message": "disk"}),
                Some("Pod b: Evicted: disk"),
            ),
            (json!({"phase": "Failed"}), None),
            (json!({}), None),
        ] {
            assert_eq!(told(&status).as_deref(), expected, "{status}");
        }
    }

    #[test]
    fn only_workloads_have_pods() {
        let workload = json!({"spec": {"selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}}});
        let selector = |api_version: &str, kind: &str| {
            let selector = selector_of(&Gvk::new(api_version, kind), &workload);
            selector.map(|selector| selector.to_string())
        };
        assert_eq!(selector("apps/v1", "Deployment").as_deref(), Some("a=b,c"));
        assert_eq!(selector("batch/v1", "Job").as_deref(), Some("a=b,c"));
        assert_eq!(selector("v1", "Service"), None);
        assert_eq!(
            selector_of(&Gvk::new("apps/v1", "Deployment"), &json!({})),
            None
        );
    }
}
