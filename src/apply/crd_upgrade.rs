//! The check of CRD upgrades against the cluster: reads the live CRDs and asks [`crate::preflight::crd_upgrade`].
//!
//! Where stored resources could change the verdict, they are read, page by page and as the account of the extension, and
//! each page is dropped when it was judged.
//!
//! Live CRDs are read with the controller's own rights, as in the reference; where its role was narrowed, as the
//! account of the extension, which must be able to read what it is to replace.

#![expect(clippy::disallowed_types, reason = "asks the API server")]

use std::fmt;
use std::sync::Arc;

use kube::Client;
use serde_json::Value;
use tokio::task::spawn_blocking;

use crate::error::{Classify, Disposition, quoted};
use crate::identity::request::{self, Page, RequestError};
use crate::preflight::crd_upgrade::stored::{self, Questions, Tally, Unanswerable};
use crate::preflight::crd_upgrade::{self, Definition, DefinitionError, Finding, Pool, Severity};

/// Where CRDs are.
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// How many resources are read at first, while nobody knows how large they are; an API server takes up to 1.5 MiB each.
const FIRST_PAGE: u32 = 5;

/// How many are read at once, at most.
const LARGEST_PAGE: u32 = 500;

/// How much JSON a page should be; as a tree in memory it takes some times as much.
const PAGE_BYTES: usize = 2 << 20;

/// How often reading begins again because it took so long that the API server forgot where it was.
const ATTEMPTS: u32 = 4;

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
    /// The task that compares died.
    #[error("comparing the CRDs was interrupted")]
    Interrupted,
    /// One of the two CRDs is none.
    #[error("converting unstructured to CRD object")]
    Definition(#[from] DefinitionError),
    /// At least one CRD must not change so.
    #[error("{}", .paragraphs.join("\n"))]
    Refused {
        /// Why, for each.
        paragraphs: Vec<String>,
        /// The stored resources that were looked at: when they change, the answer may.
        looked: Vec<Looked>,
    },
}

/// A collection of resources that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    /// Its path.
    pub path: String,
    /// Its version when it was read.
    pub resource_version: String,
}

impl Looked {
    /// Waits until something in it is another than when it was read; false when the API server ended the watch before.
    ///
    /// # Errors
    /// When `account` may not watch it, or the API server does not answer.
    pub async fn changes(&self, account: &Client) -> Result<bool, RequestError> {
        request::changes(account, &self.path, &self.resource_version).await
    }
}

/// A CRD beside the live one.
#[derive(Debug)]
pub struct Comparison {
    /// The CRD's name.
    pub name: String,
    /// What is to be said of it.
    pub findings: Vec<Finding>,
    /// The stored resources that were looked at.
    pub looked: Vec<Looked>,
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
    /// Who that is, for messages.
    pub user: &'a str,
    /// Whether stored resources may decide.
    pub resources: Resources,
}

/// What becomes of stored resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resources {
    /// They are looked at where that could change the verdict.
    Looked,
    /// The schemas decide alone, as in the reference.
    Ignored,
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
        let (mut paragraphs, mut looked) = (Vec::new(), Vec::new());
        for object in objects.iter().filter(|object| Definition::is_crd(object)) {
            // A copy as text is a tenth of one as a tree.
            let compared = self.compare(object.to_string().into_bytes()).await?;
            warnings.extend(warning(&compared.name, &compared.findings));
            if crd_upgrade::is_refused(&compared.findings) {
                paragraphs.push(crd_upgrade::refusal(&compared.name, &compared.findings));
                looked.extend(compared.looked);
            }
        }
        if paragraphs.is_empty() {
            Ok(())
        } else {
            Err(CrdUpgradeError::Refused { paragraphs, looked })
        }
    }

    /// Compares a CRD, as its JSON, with the live one whose place it is to take.
    ///
    /// # Errors
    /// When one of the two cannot be read.
    pub async fn compare(&self, new: Vec<u8>) -> Result<Comparison, CrdUpgradeError> {
        // Large CRDs take tens of milliseconds.
        let mut pool = Pool::default();
        let read = spawn_blocking(move || {
            let new = Definition::parse(&mut pool, &new)?;
            Ok::<_, DefinitionError>((pool, new))
        });
        let (pool, new) = read.await.map_err(|_join| CrdUpgradeError::Interrupted)??;
        let mut comparison = Comparison {
            name: new.name.clone(),
            findings: Vec::new(),
            looked: Vec::new(),
        };
        let Some(live) = self.live(&comparison.name).await? else {
            return Ok(comparison);
        };
        let compared = spawn_blocking(move || compare(pool, &live, &new)).await;
        let (old, findings, questions) =
            compared.map_err(|_join| CrdUpgradeError::Interrupted)??;
        comparison.findings = findings;
        let seen = match questions {
            Ok(None) => return Ok(comparison),
            _ if self.resources == Resources::Ignored => return Ok(comparison),
            Ok(Some(questions)) => self.look(Arc::new(questions), &mut comparison.looked).await,
            Err(why) => Err(why.to_string()),
        };
        let seen = seen.as_ref().map_err(String::as_str);
        comparison.findings = stored::conclude(&old, comparison.findings, seen);
        Ok(comparison)
    }

    /// Looks at all resources in question, or says why that is not possible.
    async fn look(
        &self,
        questions: Arc<Questions>,
        looked: &mut Vec<Looked>,
    ) -> Result<Tally, String> {
        let mut total = Tally::default();
        for (index, read) in questions.reads.iter().enumerate() {
            let path = request::path(&questions.group, &read.version, None, &questions.plural);
            let mut attempt = 1;
            let seen = loop {
                match self.pages(&questions, index, &path).await {
                    Err(error) if error.is_gone() && attempt < ATTEMPTS => attempt += 1,
                    seen => break seen,
                }
            };
            let (tally, resource_version) =
                seen.map_err(|error| self.unread(&questions, &read.version, &error))?;
            total.add(tally);
            looked.push(Looked {
                path,
                resource_version,
            });
        }
        Ok(total)
    }

    /// Why resources could not be read, the same words each time.
    fn unread(&self, questions: &Questions, version: &str, error: &RequestError) -> String {
        let resource = format!("{}.{}", questions.plural, questions.group);
        if error.is_forbidden() {
            format!("{} may not list {resource}; grant it that", self.user)
        } else if error.is_failed_conversion() {
            format!(
                "the conversion webhook of {resource} does not answer properly, without which none can be read as \
                 {version}: see to its Service and its pods"
            )
        } else {
            format!("cannot list {resource}: {error}")
        }
    }

    /// Looks at the resources of one version, page by page; also the version of the collection.
    async fn pages(
        &self,
        questions: &Arc<Questions>,
        index: usize,
        path: &str,
    ) -> Result<(Tally, String), RequestError> {
        let mut tally = Tally::default();
        let mut token: Option<String> = None;
        let mut limit = FIRST_PAGE;
        loop {
            let Page {
                items,
                next,
                resource_version,
                bytes,
            } = request::list_page(self.account, path, limit, token.as_deref()).await?;
            limit = next_limit(items.len(), bytes);
            let questions = questions.clone();
            let judged = spawn_blocking(move || {
                if let Some(read) = questions.reads.get(index) {
                    for item in &items {
                        tally.look(&questions.kind, read, item);
                    }
                }
                tally
            });
            tally = judged.await.unwrap_or_else(|_join| Tally::interrupted());
            token = next;
            if token.is_none() || tally.is_decided() {
                return Ok((tally, resource_version));
            }
        }
    }

    async fn live(&self, name: &str) -> Result<Option<String>, CrdUpgradeError> {
        let answer = match request::get_text(self.own, CRDS, name).await {
            Err(error) if error.is_forbidden() => request::get_text(self.account, CRDS, name).await,
            answer => answer,
        };
        answer.map_err(|source| CrdUpgradeError::Read {
            crd: name.to_owned(),
            source,
        })
    }
}

/// How many resources to read next, when so many were of so many bytes.
fn next_limit(count: usize, bytes: usize) -> u32 {
    let each = bytes.div_ceil(count.max(1)).max(1);
    let fitting = u32::try_from(PAGE_BYTES / each).unwrap_or(LARGEST_PAGE);
    fitting.clamp(1, LARGEST_PAGE)
}

type Compared = (
    Definition,
    Vec<Finding>,
    Result<Option<Questions>, Unanswerable>,
);

fn compare(mut pool: Pool, live: &str, new: &Definition) -> Result<Compared, DefinitionError> {
    let old = Definition::parse(&mut pool, live.as_bytes())?;
    let findings = crd_upgrade::check(Some(&old), new);
    let questions = stored::questions(&old, new, &findings);
    Ok((old, findings, questions))
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
            user: "n/a",
            resources: Resources::Looked,
        };
        let mut warnings = Vec::new();
        let result = check.check(objects, &mut warnings).await;
        (result.map_err(|error| chain(&error)), warnings)
    }

    #[test]
    fn pages_are_as_large_as_memory_allows() {
        for (count, bytes, expected) in [
            (0, 0, 500),
            (5, 5 * 100, 500),
            (5, 5 * 8 * 1024, 256),
            (5, 5 * 1_500_000, 1),
            (1, 3 << 20, 1),
        ] {
            assert_eq!(next_limit(count, bytes), expected, "{count} of {bytes}");
        }
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
        let mut new = crd(&json!({"type": "object", "properties": {"a": {"type": "integer"}}}));
        new["spec"]["versions"][0]["additionalPrinterColumns"] = json!([]);
        let (result, warnings) = checked(&server, &[new]).await;
        assert_eq!(
            result.unwrap_err(),
            "validating upgrade for CRD \"things.g\": v1: ^.a: type: type changed : \"string\" -> \"integer\""
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

    fn thing(name: &str, size: i64) -> Value {
        json!({"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": name, "namespace": "n"}, "spec": {"size": size}})
    }

    fn sized(more: &Value) -> Value {
        let mut size = json!({"type": "integer"});
        size.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        crd(
            &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": size}}}}),
        )
    }

    const THINGS: &str = "LIST /apis/g/v1/things";

    #[tokio::test]
    async fn resources_that_pass_make_a_warning_of_an_error() {
        let server = ApiServer::new();
        server.add(&sized(&json!({})));
        for index in 0..600 {
            server.add(&thing(&format!("t{index}"), 1));
        }
        // Reading begins again when the API server forgot where it was, on the second page.
        server.fail_after(1, THINGS, 410);
        let (result, warnings) = checked(&server, &[sized(&json!({"maximum": 5}))]).await;
        assert_eq!(result, Ok(()));
        assert_eq!(
            warnings,
            [
                "The upgrade changes CRD things.g: v1: ^.spec.size: maximum: maximum constraint added when there was none previously : 5."
            ]
        );
        let pages = server.log().into_iter().filter(|one| one.line == THINGS);
        let codes: Vec<u16> = pages.map(|one| one.code).collect();
        assert_eq!(codes, [200, 410, 200, 200, 200]);
    }

    #[tokio::test]
    async fn resources_that_fail_are_named() {
        let server = ApiServer::new();
        server.add(&sized(&json!({})));
        for index in 0..120 {
            server.add(&thing(&format!("t{index:03}"), index));
        }
        let (result, warnings) = checked(&server, &[sized(&json!({"maximum": 100}))]).await;
        assert_eq!(
            result.unwrap_err(),
            "validating upgrade for CRD \"things.g\": v1: ^.spec.size: maximum: maximum constraint added when there was none previously : 100\n\
             storedResources: 19 of 120 would not be valid or lose data: \
             Thing n/t101: spec.size: must be at most 100, is 101; Thing n/t102: spec.size: must be at most 100, is 102; \
             Thing n/t103: spec.size: must be at most 100, is 103; Thing n/t104: spec.size: must be at most 100, is 104; \
             Thing n/t105: spec.size: must be at most 100, is 105; and 14 more"
        );
        assert_eq!(warnings, Vec::<String>::new());
    }

    #[tokio::test]
    async fn without_the_right_to_list_the_schemas_decide() {
        let server = ApiServer::new();
        server.add(&sized(&json!({})));
        server.fail_next(THINGS, 403);
        let (result, _) = checked(&server, &[sized(&json!({"maximum": 5}))]).await;
        assert!(result.unwrap_err().ends_with(
            "\nstoredResources: not looked at: n/a may not list things.g; grant it that"
        ));
        for _ in 0..ATTEMPTS {
            server.fail_next(THINGS, 410);
        }
        let (result, _) = checked(&server, &[sized(&json!({"maximum": 5}))]).await;
        assert!(
            result
                .unwrap_err()
                .contains("\nstoredResources: not looked at: cannot list things.g: ")
        );
    }

    #[tokio::test]
    async fn a_conversion_webhook_that_does_not_answer_leaves_the_verdict() {
        let server = ApiServer::new();
        server.add(&sized(&json!({})));
        let text = "conversion webhook for g/v1, Kind=Thing failed: Post \"https://a.b.svc:443/\": dial tcp 10.0.0.1:443: refused";
        server.fail_with(THINGS, 500, text);
        let (result, _) = checked(&server, &[sized(&json!({"maximum": 5}))]).await;
        assert_eq!(
            result.unwrap_err(),
            "validating upgrade for CRD \"things.g\": v1: ^.spec.size: maximum: maximum constraint added when there was none previously : 5\n\
             storedResources: not looked at: the conversion webhook of things.g does not answer properly, without which \
             none can be read as v1: see to its Service and its pods"
        );
    }

    #[tokio::test]
    async fn a_page_token_that_expired_starts_over_a_few_times() {
        let server = ApiServer::new();
        server.add(&sized(&json!({})));
        server.add(&thing("small", 3));
        let expired = "The provided continue parameter is too old";
        for _ in 1..ATTEMPTS {
            server.fail_with(THINGS, 410, expired);
        }
        let new = sized(&json!({"maximum": 5}));
        let (result, warnings) = checked(&server, std::slice::from_ref(&new)).await;
        assert_eq!((result, warnings.len()), (Ok(()), 1));
        for _ in 0..ATTEMPTS {
            server.fail_with(THINGS, 410, expired);
        }
        let (result, _) = checked(&server, &[new]).await;
        let text = result.unwrap_err();
        assert!(
            text.ends_with("storedResources: not looked at: cannot list things.g: The provided continue parameter is too old"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_refusal_knows_which_resources_would_change_it() {
        let server = ApiServer::new();
        server.add(&sized(&json!({})));
        server.add(&thing("large", 9));
        let (own, account) = (server.client(), server.client());
        let check = CrdUpgradeCheck {
            own: &own,
            account: &account,
            user: "n/a",
            resources: Resources::Looked,
        };
        let new = sized(&json!({"maximum": 5}));
        let refused = check
            .check(std::slice::from_ref(&new), &mut Vec::new())
            .await;
        let Err(CrdUpgradeError::Refused { looked, .. }) = refused else {
            panic!("a resource does not fit");
        };
        assert_eq!(looked[0].path, "/apis/g/v1/things");
        let changes = looked[0].changes(&account);
        server.edit(
            "/apis/g/v1/namespaces/n/things/large",
            &json!({"spec": {"size": 3}}),
        );
        assert!(changes.await.unwrap());
        assert_eq!(check.check(&[new], &mut Vec::new()).await.unwrap(), ());
    }
}
