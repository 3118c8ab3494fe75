//! What to do about a failure that is tried again, by what its message is about.
//!
//! A reason is the same for many failures, and its meaning can only say the most general thing. Nothing is decided here by
//! text: people read it, and where no text is known they are told what the reason means.

use kube::ResourceExt as _;

use crate::api::{ClusterExtension, keys};
use crate::error::DEAD_WEBHOOK;
use crate::preflight::crd_upgrade::GRANT;
use crate::preflight::permissions::{LIST, REMOVED_API};
use crate::resolve::report;
use crate::revision::plan::ALTERED;

/// What an account lacks, as the preflight says.
const LACKING: &str = "service account requires the following permissions";
/// What the API server says of fields that stay as they are.
const UNCHANGEABLE: [&str; 2] = ["cannot change roleRef", "field is immutable"];
/// What the API server says where the namespace of an object is not there, before and after its name.
const NO_NAMESPACE: (&str, &str) = ("namespaces \"", "\" not found");
/// What is said of a definition whose owner is gone.
const LEFT_BEHIND: &str = ", which is gone and left it";
/// What a message holds that names the command itself.
const DELETE: &str = ": kubectl delete ";
/// A kind that nobody knows.
const UNKNOWN_KIND: &str = "no matches for kind";

/// What helps against `message`, if it is about one of a few things that happen often.
pub(super) fn of(message: &str) -> Option<String> {
    if let Some(namespace) = missing_namespace(message) {
        return Some(format!(
            "Create the namespace: `kubectl create namespace {namespace}`. Nothing has to be restarted."
        ));
    }
    let advice = if UNCHANGEABLE.iter().any(|text| message.contains(text)) {
        "Kubernetes does not let this field be changed: delete the object that the message names, so that it is made anew, or \
         choose the earlier version with spec.source.catalog.version."
    } else if message.contains(REMOVED_API) {
        "Choose a newer version of the bundle, or an older Kubernetes: nothing that is installed brings this API back."
    } else if message.contains(LIST) {
        "Whoever wrote the manifests has to write the items of the list one by one; another version may have them so."
    } else if message.contains(UNKNOWN_KIND) {
        "Install what defines this kind; it is looked for again by itself."
    } else if message.contains(DEAD_WEBHOOK) && !message.contains(DELETE) {
        "Let the webhook that the message names answer again: look at its Service and Pods. Whose it is: kubectl get \
         validatingwebhookconfigurations,mutatingwebhookconfigurations --show-labels."
    } else if message.contains(ALTERED) {
        "Find the admission webhook or policy that changes ClusterObjectSets (kubectl get mutatingwebhookconfigurations, \
         mutatingadmissionpolicies), and let it leave objects of group olm.operatorframework.io as they are."
    } else if message.contains(LACKING) {
        "Give the account the rights that the message lists; `oxolm rbac generate` prints the roles. Nothing has to be restarted."
    } else {
        return None;
    };
    Some(advice.to_owned())
}

/// The namespace that is not there, if a message is about one.
fn missing_namespace(message: &str) -> Option<&str> {
    let (before, after) = NO_NAMESPACE;
    let (_, rest) = message.split_once(before)?;
    let (name, _) = rest.split_once(after)?;
    (!name.contains('"')).then_some(name)
}

/// The same for an extension, of which more is known; `resolved` is what its condition `Resolved` says.
pub(super) fn of_extension(
    extension: &ClusterExtension,
    resolved: Option<&str>,
    message: &str,
) -> Option<String> {
    let name = extension.name_any();
    if message.contains(LEFT_BEHIND) {
        return Some(format!(
            "Let the extension take over what was left, with all that is stored of it: `kubectl annotate clusterextension {name} \
             {}=unowned`. Nothing has to be restarted.",
            keys::ADOPT
        ));
    }
    let Some(catalog) = extension.spec.source.catalog.as_ref() else {
        return of(message);
    };
    // What may not be looked at does not belong to the rights that a bundle needs.
    let grants = message.lines().filter_map(|line| line.split_once(GRANT));
    let grants: Vec<String> = grants.map(|(_, command)| format!("`{command}`")).collect();
    if !grants.is_empty() {
        return Some(format!(
            "Let the account look at the resources that the change is about: {}. Nothing has to be restarted.",
            grants.join(" and ")
        ));
    }
    if !message.contains(LACKING) {
        return of(message);
    }
    let package = &catalog.package_name;
    let status = extension.status.as_ref();
    let installed = status.and_then(|status| status.install.as_ref());
    let installed = installed.map(|install| install.bundle.version.as_str());
    let chosen = resolved.and_then(report::chosen_version);
    let has_revisions = status.is_some_and(|status| !status.active_revisions.is_empty());
    // What its revisions hold is maintained, or deleted, with the account's rights, too. Their version may have left the
    // catalog, and their configuration the spec.
    let held = has_revisions.then(|| format!("--extension {name}"));
    let is_held = has_revisions && (chosen == installed || chosen.is_none());
    let bundle = match chosen.or(installed) {
        _ if is_held && extension.spec.config.is_none() => None,
        Some(version) => Some(format!("{package}@{version}")),
        None => Some(package.clone()),
    };
    let catalogs = bundle.is_some().then(|| "--cluster".to_owned());
    let has_bundle = bundle.is_some();
    let parts: Vec<String> = [bundle, held, catalogs].into_iter().flatten().collect();
    let parts = parts.join(" ");
    let namespace = &extension.spec.namespace;
    let account = extension.spec.service_account_name().unwrap_or("NAME");
    let (config, of_config) = match &extension.spec.config {
        Some(_) if has_bundle => (" --config FILE", ", FILE being its spec.config.inline"),
        Some(_) | None => ("", ""),
    };
    Some(format!(
        "Give the account its rights: `oxolm rbac generate {parts} --namespace {namespace} \
         --service-account {account}{config} | kubectl apply -f -`{of_config}. Nothing has to be restarted."
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn extension(more: &serde_json::Value, installed: Option<&str>) -> ClusterExtension {
        let mut object = json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": "x"},
            "spec": {"namespace": "n", "serviceAccount": {"name": "s"},
                "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}},
            "status": installed.map_or(json!({}), |version| json!({
                "install": {"bundle": {"name": "p", "version": version}}, "activeRevisions": [{"name": "x-1"}],
            })),
        });
        if let Some(config) = more.get("config") {
            object["spec"]["config"] = config.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn whoever_may_not_look_at_resources_is_told_the_commands_of_the_message() {
        let message = "x: removed field : y\nstoredResources: not looked at: n/s may not list things.g; grant it that: kubectl a && \
                       kubectl b\npre-authorization failed: service account requires the following permissions to manage \
                       cluster extension:\n  z";
        let advice = of_extension(&extension(&json!({}), None), None, message).unwrap();
        assert!(advice.contains(": `kubectl a && kubectl b`. "), "{advice}");
    }

    #[test]
    fn whoever_lacks_rights_is_told_the_command_that_gives_them() {
        let message = "pre-authorization failed: service account requires the following permissions to manage cluster extension:\n  x";
        let resolved = Some(r#"chose "p.v1.1.0" (1.1.0) from catalog "c""#);
        let config = json!({"config": {"configType": "Inline", "inline": {"watchNamespace": "n"}}});
        for (more, installed, resolved, expected) in [
            (
                json!({}),
                None,
                resolved,
                "p@1.1.0 --cluster --namespace n --service-account s |",
            ),
            (
                json!({}),
                Some("1.0.0"),
                resolved,
                "generate p@1.1.0 --extension x --cluster --namespace n --service-account s |",
            ),
            (
                json!({}),
                Some("1.1.0"),
                resolved,
                "generate --extension x --namespace n ",
            ),
            (json!({}), None, None, "p --cluster "),
            (
                config.clone(),
                Some("1.1.0"),
                resolved,
                "generate p@1.1.0 --extension x --cluster --namespace n --service-account s --config FILE |",
            ),
            (
                config,
                None,
                None,
                "--service-account s --config FILE | kubectl apply -f -`, FILE being ",
            ),
        ] {
            let extension = extension(&more, installed);
            let advice = of_extension(&extension, resolved, message).unwrap();
            assert!(advice.contains(expected), "{advice}");
        }
        assert!(of(message).unwrap().contains("oxolm rbac generate"));
        let left = "Conflicting Owner: ClusterExtension y (package p), which is gone and left it";
        let advice = of_extension(&extension(&json!({}), None), None, left).unwrap();
        assert!(
            advice.contains("`kubectl annotate clusterextension x oxolm.dev/adopt=unowned`"),
            "{advice}"
        );
    }

    #[test]
    fn a_message_is_answered_by_what_it_is_about() {
        for (message, expected) in [
            (
                r#"rolebindings.rbac.authorization.k8s.io "b" is invalid: roleRef: Invalid value: cannot change roleRef"#,
                Some("delete the object"),
            ),
            (
                r#"Deployment.apps "d" is invalid: spec.selector: Invalid value: {}: field is immutable"#,
                Some("delete the object"),
            ),
            (
                r#"no matches for kind "Thing" in version "g/v1": install what defines it first"#,
                Some("Install what defines"),
            ),
            (
                r#"creating resource: namespaces "nowhere" not found"#,
                Some("`kubectl create namespace nowhere`"),
            ),
            (r#"namespaces "n" is forbidden: Role "r" not found"#, None),
            ("service account \"s\" not found in namespace \"n\"", None),
        ] {
            let advice = of(message);
            assert_eq!(advice.is_some(), expected.is_some(), "{message}");
            assert!(
                advice
                    .unwrap_or_default()
                    .contains(expected.unwrap_or_default())
            );
        }
        let lacking = crate::preflight::permissions::MissingRules::default();
        assert!(lacking.to_string().contains(LACKING));
        let removed = format!(
            r#"no matches for kind "X" in version "apiextensions.k8s.io/v1beta1": {REMOVED_API}"#
        );
        assert!(
            of(&removed)
                .unwrap()
                .contains("newer version of the bundle")
        );
    }
}
