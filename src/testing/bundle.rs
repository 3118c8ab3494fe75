#![expect(clippy::disallowed_methods, reason = "writes bundles for tests")]
//! A small registry+v1 bundle that a test changes as it needs.

use std::fs;

use serde_json::{Value, json};

use crate::bundle::Files;

/// A bundle of package `p`: one Deployment `d` with one account `s`, for all namespaces.
#[derive(Debug, Clone)]
pub(crate) struct TestBundle {
    csv: Value,
    files: Files,
}

impl TestBundle {
    pub(crate) fn new() -> Self {
        let container = json!({"name": "c", "image": "example.com/c:v1"});
        let pod = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}});
        let deployment = json!({"name": "d", "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pod}});
        let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
        let csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": "p.v1.0.0", "annotations": {}},
            "spec": {
                "version": "1.0.0", "displayName": "P",
                "installModes": [{"type": "AllNamespaces", "supported": true}],
                "install": {"spec": {
                    "deployments": [deployment],
                    "clusterPermissions": [{"serviceAccountName": "s", "rules": [rule]}],
                }},
            },
        });
        let bundle = Self {
            csv,
            files: Files::new(),
        };
        let package = "annotations: {operators.operatorframework.io.bundle.package.v1: p}";
        bundle.file("metadata/annotations.yaml", package)
    }

    /// The same with another file.
    pub(crate) fn file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.to_owned(), text.as_bytes().to_vec());
        self
    }

    /// The same with `value` at `pointer` of the CSV, whose parent must be there.
    pub(crate) fn with(mut self, pointer: &str, value: Value) -> Self {
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        let member = member.replace("~1", "/");
        self.csv.pointer_mut(parent).unwrap()[member] = value;
        self
    }

    /// The same with a validating webhook that the Deployment serves.
    pub(crate) fn webhook(self) -> Self {
        let webhook = json!({
            "type": "ValidatingAdmissionWebhook", "generateName": "w.example.com", "deploymentName": "d",
            "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}],
        });
        self.with("/spec/webhookdefinitions", json!([webhook]))
    }

    /// The files.
    pub(crate) fn files(&self) -> Files {
        let mut files = self.files.clone();
        let csv = self.csv.to_string().into_bytes();
        files.insert("manifests/csv.yaml".to_owned(), csv);
        files
    }

    /// The files in a directory.
    pub(crate) fn directory(&self) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (path, bytes) in self.files() {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        directory
    }
}
