//! The check of CRD upgrades against the cluster: reads the live CRDs and asks [`crate::preflight::crd_upgrade`].
//!
//! Live CRDs are read with the controller's own rights, as in the reference; where its role was narrowed, as the
//! account of the extension, which must be able to read what it is to replace.

#![expect(clippy::disallowed_types, reason = "asks the API server")]

use std::fmt;

use kube::Client;
use serde_json::Value;

use crate::error::{Classify, Disposition, quoted};
use crate::identity::request::{self, RequestError};
use crate::preflight::crd_upgrade::{self, Definition, DefinitionError, Finding, Severity};

/// Where CRDs are.
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// An upgrade that would break somebody, or of which that could not be found out. Texts are the reference's.
#[derive(Debug, thiserror::Error)]
pub enum CrdUpgradeError {
    /// A live CRD could not be read.
    #[error("getting existing resource for CRD {}", quoted(crd))]
    Read {
        /// The CRD.
        crd: String,
        /// Why.
        #[source]
        source: RequestError,
    },
    /// One of the two CRDs is none.
    #[error("converting unstructured to CRD object")]
    Definition(#[from] DefinitionError),
    /// At least one CRD must not change so: a paragraph for each.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
}

impl Classify for CrdUpgradeError {
    /// The live CRD can change, and so can resources.
    fn disposition(&self) -> Disposition {
        Disposition::Retry
    }
}

/// Whom to ask.
pub struct CrdUpgradeCheck<'a> {
    /// The controller's own client.
    pub own: &'a Client,
    /// Acts as the account of the extension.
    pub account: &'a Client,
}

impl fmt::Debug for CrdUpgradeCheck<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrdUpgradeCheck").finish_non_exhaustive()
    }
}

impl CrdUpgradeCheck<'_> {
    /// Compares the CRDs among `objects` with the live ones. What is found and stops nothing is added to `warnings`, a
    /// sentence for each CRD, also when the check fails.
    ///
    /// # Errors
    /// When a CRD must not change so, or that could not be found out.
    pub async fn check(
        &self,
        objects: &[Value],
        warnings: &mut Vec<String>,
    ) -> Result<(), CrdUpgradeError> {
        let mut refusals = Vec::new();
        for object in objects.iter().filter(|object| Definition::is_crd(object)) {
            let new = Definition::read(object)?;
            let Some(live) = self.live(&new.name).await? else {
                continue;
            };
            let old = Definition::read(&live)?;
            let findings = crd_upgrade::check(Some(&old), &new);
            warnings.extend(warning(&new.name, &findings));
            if crd_upgrade::is_refused(&findings) {
                refusals.push(crd_upgrade::refusal(&new.name, &findings));
            }
        }
        if refusals.is_empty() {
            Ok(())
        } else {
            Err(CrdUpgradeError::Refused(refusals))
        }
    }

    async fn live(&self, name: &str) -> Result<Option<Value>, CrdUpgradeError> {
        let answer = match request::get(self.own, CRDS, name).await {
            Err(error) if error.is_forbidden() => request::get(self.account, CRDS, name).await,
            answer => answer,
        };
        answer.map_err(|source| CrdUpgradeError::Read {
            crd: name.to_owned(),
            source,
        })
    }
}

/// The warnings about one CRD as a sentence.
fn warning(crd: &str, findings: &[Finding]) -> Option<String> {
    let lines: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Warning)
        .map(|finding| finding.message.as_str())
        .collect();
    (!lines.is_empty()).then(|| format!("The upgrade changes CRD {crd}: {}.", lines.join("; ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::chain;
    use crate::testing::api_server::{ApiServer, CONTROLLER};

    fn crd(schema: &Value) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.g"},
            "spec": {
                "group": "g", "names": {"kind": "Thing", "plural": "things"}, "scope": "Namespaced",
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".a"}],
                    "schema": {"openAPIV3Schema": schema}}],
            },
        })
    }

    async fn checked(server: &ApiServer, objects: &[Value]) -> (Result<(), String>, Vec<String>) {
        let (own, account) = (server.client(), server.client());
        let check = CrdUpgradeCheck {
            own: &own,
            account: &account,
        };
        let mut warnings = Vec::new();
        let result = check.check(objects, &mut warnings).await;
        (result.map_err(|error| chain(&error)), warnings)
    }

    #[tokio::test]
    async fn a_new_crd_and_other_objects_pass() {
        let server = ApiServer::new();
        let new = crd(&json!({"type": "object"}));
        let other =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "things.g"}});
        assert_eq!(checked(&server, &[new, other]).await, (Ok(()), vec![]));
        assert_eq!(
            server.requests(),
            [format!("{CONTROLLER} GET {CRDS}/things.g")]
        );
    }

    #[tokio::test]
    async fn a_refusal_has_the_references_text_and_warnings_are_kept_apart() {
        let server = ApiServer::new();
        server.add(&crd(
            &json!({"type": "object", "properties": {"a": {"type": "string"}}}),
        ));
        let mut new = crd(&json!({"type": "object"}));
        new["spec"]["versions"][0]["additionalPrinterColumns"] = json!([]);
        let (result, warnings) = checked(&server, &[new]).await;
        assert_eq!(
            result.unwrap_err(),
            "validating upgrade for CRD \"things.g\": existingFieldRemoval: removed field : v1.^.a\n\
             v1: ^.a: type: type changed : \"string\" -> \"\""
        );
        assert_eq!(
            warnings,
            [
                "The upgrade changes CRD things.g: printerColumn: column \"Age\" of version v1 is gone."
            ]
        );
    }

    #[tokio::test]
    async fn a_crd_that_cannot_be_read_is_named() {
        let server = ApiServer::new();
        let good = crd(&json!({"type": "object"}));
        server.add(&good);
        server.fail_next(&format!("GET {CRDS}/things.g"), 500);
        let (result, _) = checked(&server, std::slice::from_ref(&good)).await;
        let text = result.unwrap_err();
        assert!(
            text.starts_with("getting existing resource for CRD \"things.g\": "),
            "{text}"
        );
        let (result, _) = checked(&server, &[crd(&json!({"type": 1}))]).await;
        assert!(
            result
                .unwrap_err()
                .starts_with("converting unstructured to CRD object: ")
        );
    }

    #[tokio::test]
    async fn where_the_controller_may_not_read_the_account_is_asked() {
        let server = ApiServer::new();
        server.add(&crd(&json!({"type": "object"})));
        server.fail_next(&format!("GET {CRDS}/things.g"), 403);
        let (result, _) = checked(&server, &[crd(&json!({"type": "object"}))]).await;
        assert_eq!(result, Ok(()));
        assert_eq!(server.requests().len(), 2);
    }
}
