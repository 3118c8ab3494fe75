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

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::core::PartialObjectMeta;
use serde_json::Value;
use tokio::task::spawn_blocking;

use crate::error::{Classify, Disposition, quoted};
use crate::identity::request::{self, Page, RequestError};
use crate::preflight::crd_upgrade::GRANT;
use crate::preflight::crd_upgrade::stored::{self, Questions, Tally, Unanswerable};
use crate::preflight::crd_upgrade::{self, Definition, DefinitionError, Finding, Pool, Severity};
use crate::preflight::permissions::{Access, MissingRules};

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
    #[error("{}", refusal(paragraphs, looked, unlisted))]
    Refused {
        /// Why, for each.
        paragraphs: Vec<String>,
        /// What the account lacks to look at stored resources, which could change the answer.
        unlisted: MissingRules,
        /// The stored resources that were looked at: when they change, the answer may.
        looked: Vec<Looked>,
        /// The live CRDs in question.
        live: Vec<Live>,
    },
}

/// A CRD as it is in the cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Live {
    /// Its name.
    pub name: String,
    /// Its metadata, which says whose it is.
    pub metadata: ObjectMeta,
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
    /// The right that is missing to look at them.
    pub unlisted: Option<Access>,
    /// The metadata of the live one, if there is one.
    pub live: Option<ObjectMeta>,
}

/// What is to be written in the spec of an extension whose CRDs shall change although stored resources do not fit.
const ALL_THE_SAME: &str = "install: {preflight: {crdUpgradeSafety: {enforcement: None}}}";

/// All that is said: for each CRD, how to go on although resources do not fit if that is why, then the missing rights as
/// the permission preflight says them.
fn refusal(paragraphs: &[String], looked: &[Looked], unlisted: &MissingRules) -> String {
    let mut text = paragraphs.join("\n");
    if !looked.is_empty() {
        text.push_str(
            "\nchange or delete these resources, or go on all the same with this in spec of the ClusterExtension: ",
        );
        text.push_str(ALL_THE_SAME);
    }
    if !unlisted.is_empty() {
        text.push_str("\npre-authorization failed: ");
        text.push_str(&unlisted.to_string());
    }
    text
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
        let (mut paragraphs, mut looked, mut live) = (Vec::new(), Vec::new(), Vec::new());
        let mut unlisted = MissingRules::default();
        for object in objects.iter().filter(|object| Definition::is_crd(object)) {
            // A copy as text is a tenth of one as a tree.
            let compared = self.compare(object.to_string().into_bytes()).await?;
            warnings.extend(warning(&compared.name, &compared.findings));
            if crd_upgrade::is_refused(&compared.findings) {
                paragraphs.push(crd_upgrade::refusal(&compared.name, &compared.findings));
                looked.extend(compared.looked);
                unlisted.extend(compared.unlisted);
                live.extend(compared.live.map(|metadata| Live {
                    name: compared.name,
                    metadata,
                }));
            }
        }
        if paragraphs.is_empty() {
            Ok(())
        } else {
            Err(CrdUpgradeError::Refused {
                paragraphs,
                looked,
                unlisted,
                live,
            })
        }
    }

    /// What the account lacks to look at the stored resources that could change a verdict on `objects`: rights that are
    /// needed only now, and that the permission preflight tells beside the others.
    ///
    /// # Errors
    /// When a CRD cannot be read.
    pub async fn unlisted(&self, objects: &[Value]) -> Result<Vec<Access>, CrdUpgradeError> {
        let mut unlisted = Vec::new();
        if self.resources == Resources::Ignored {
            return Ok(unlisted);
        }
        for object in objects.iter().filter(|object| Definition::is_crd(object)) {
            let compared = self.judge(object.to_string().into_bytes()).await?;
            let Some(Judged {
                questions: Ok(Some(questions)),
                ..
            }) = compared.judged
            else {
                continue;
            };
            for read in &questions.reads {
                let path = questions_path(&questions, &read.version);
                // Whatever else is wrong, the check itself will tell.
                if let Err(error) = request::list_page(self.account, &path, 1, None).await
                    && error.is_forbidden()
                {
                    unlisted.push(Access::to_list(&questions.group, &questions.plural));
                }
            }
        }
        Ok(unlisted)
    }

    /// Compares a CRD, as its JSON, with the live one whose place it is to take.
    ///
    /// # Errors
    /// When one of the two cannot be read.
    pub async fn compare(&self, new: Vec<u8>) -> Result<Comparison, CrdUpgradeError> {
        let Schemas { name, judged } = self.judge(new).await?;
        let mut comparison = Comparison {
            name,
            findings: Vec::new(),
            looked: Vec::new(),
            unlisted: None,
            live: None,
        };
        let Some(judged) = judged else {
            return Ok(comparison);
        };
        comparison.live = Some(judged.metadata);
        let seen = match judged.questions {
            _ if self.resources == Resources::Ignored => None,
            Ok(None) => None,
            Ok(Some(questions)) => Some(self.look(Arc::new(questions), &mut comparison).await),
            Err(why) => Some(Err(why.to_string())),
        };
        comparison.findings = match &seen {
            None => judged.findings,
            Some(seen) => {
                let seen = seen.as_ref().map_err(String::as_str);
                stored::conclude(&judged.old, judged.findings, seen)
            }
        };
        Ok(comparison)
    }

    /// What the schemas say.
    async fn judge(&self, new: Vec<u8>) -> Result<Schemas, CrdUpgradeError> {
        // Large CRDs take tens of milliseconds.
        let mut pool = Pool::default();
        let read = spawn_blocking(move || {
            let new = Definition::parse(&mut pool, &new)?;
            Ok::<_, DefinitionError>((pool, new))
        });
        let (pool, new) = read.await.map_err(|_join| CrdUpgradeError::Interrupted)??;
        let name = new.name.clone();
        let Some(live) = self.live(&name).await? else {
            return Ok(Schemas { name, judged: None });
        };
        let judged = spawn_blocking(move || compare(pool, &live, &new)).await;
        let judged = judged.map_err(|_join| CrdUpgradeError::Interrupted)??;
        Ok(Schemas {
            name,
            judged: Some(judged),
        })
    }

    /// Looks at all resources in question, or says why that is not possible.
    async fn look(
        &self,
        questions: Arc<Questions>,
        comparison: &mut Comparison,
    ) -> Result<Tally, String> {
        let mut total = Tally::default();
        for (index, read) in questions.reads.iter().enumerate() {
            let path = questions_path(&questions, &read.version);
            let mut attempt = 1;
            let seen = loop {
                match self.pages(&questions, index, &path).await {
                    Err(error) if error.is_gone() && attempt < ATTEMPTS => attempt += 1,
                    seen => break seen,
                }
            };
            if seen.as_ref().is_err_and(RequestError::is_forbidden) {
                let access = Access::to_list(&questions.group, &questions.plural);
                comparison.unlisted = Some(access);
            }
            let (tally, resource_version) =
                seen.map_err(|error| self.unread(&questions, &read.version, &error))?;
            total.add(tally);
            comparison.looked.push(Looked {
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
            format!(
                "{} may not list {resource} in all namespaces{}",
                self.user,
                self.remedy(&resource)
            )
        } else if error.is_failed_conversion() {
            format!(
                "the conversion webhook of {resource} does not answer properly, without which none can be read as \
                 {version}: see to its Service and its pods"
            )
        } else {
            format!("cannot list {resource}: {error}")
        }
    }

    /// What lets the account list a resource.
    fn remedy(&self, resource: &str) -> String {
        // Who asks for themselves cannot grant it.
        let Some((namespace, name)) = self.user.split_once('/') else {
            return String::new();
        };
        let role = format!("{namespace}-{name}-list-{resource}");
        format!(
            "{GRANT}kubectl create clusterrole {role} --verb=list --resource={resource} && kubectl create \
             clusterrolebinding {role} --clusterrole={role} --serviceaccount={namespace}:{name}"
        )
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

fn questions_path(questions: &Questions, version: &str) -> String {
    request::path(&questions.group, version, None, &questions.plural)
}

/// A CRD beside the live one, by their schemas alone.
struct Schemas {
    name: String,
    /// Nothing where there is no live one.
    judged: Option<Judged>,
}

struct Judged {
    metadata: ObjectMeta,
    old: Definition,
    findings: Vec<Finding>,
    questions: Result<Option<Questions>, Unanswerable>,
}

fn compare(mut pool: Pool, live: &str, new: &Definition) -> Result<Judged, DefinitionError> {
    let old = Definition::parse(&mut pool, live.as_bytes())?;
    let findings = crd_upgrade::check(Some(&old), new);
    let questions = stored::questions(&old, new, &findings);
    let metadata = serde_json::from_str::<PartialObjectMeta>(live);
    Ok(Judged {
        // The API server's own answer.
        metadata: metadata.map(|it| it.metadata).unwrap_or_default(),
        old,
        findings,
        questions,
    })
}

/// The warnings about one CRD as a sentence.
fn warning(crd: &str, findings: &[Finding]) -> Option<String> {
    let lines: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Warning)
        .map(|finding| finding.message.as_str())
        .collect();
    (!lines.is_empty()).then(|| format!("CRD {crd} changes: {}.", lines.join("; ")))
}

#[cfg(test)]
mod tests;
