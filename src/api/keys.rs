//! The well-known keys: labels, annotations, finalizers, field managers and the Secret type.
//!
//! Those with the prefix `olm.operatorframework.io/` are the reference's, so that scripts and consoles keep
//! working; those with [`OXOLM_PREFIX`] are ours and only add behaviour.

/// Label on every applied object and on revisions: the kind of the owner, `ClusterExtension`.
pub const OWNER_KIND: &str = "olm.operatorframework.io/owner-kind";
/// Label on every applied object, on revisions and on their Secrets: the name of the `ClusterExtension`.
pub const OWNER_NAME: &str = "olm.operatorframework.io/owner-name";
/// The value of [`OWNER_KIND`].
pub const OWNER_KIND_CLUSTER_EXTENSION: &str = "ClusterExtension";
/// Label on every applied object, by which drift watches select.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`].
pub const MANAGED_BY_OLM: &str = "olm.operatorframework.io";

/// Annotation on revisions and applied objects: the package.
pub const PACKAGE_NAME: &str = "olm.operatorframework.io/package-name";
/// Annotation on revisions: the bundle's name.
pub const BUNDLE_NAME: &str = "olm.operatorframework.io/bundle-name";
/// Annotation on revisions and applied objects: the bundle's version.
pub const BUNDLE_VERSION: &str = "olm.operatorframework.io/bundle-version";
/// Annotation on revisions: the bundle's release; absent when it has none, empty when the release is empty.
pub const BUNDLE_RELEASE: &str = "olm.operatorframework.io/bundle-release";
/// Annotation on revisions: the bundle's image reference.
pub const BUNDLE_REFERENCE: &str = "olm.operatorframework.io/bundle-reference";
/// Annotation on applied objects: the number of the revision that applied them, decimal.
pub const REVISION: &str = "olm.operatorframework.io/revision";
/// Annotation on revisions: the name of the account that applies them.
pub const SERVICE_ACCOUNT_NAME: &str = "olm.operatorframework.io/service-account-name";
/// Annotation on revisions: the namespace of the account that applies them.
pub const SERVICE_ACCOUNT_NAMESPACE: &str = "olm.operatorframework.io/service-account-namespace";
/// Annotation on revisions: `true` once all objects were available, as the condition `Succeeded` says, too; but a backup keeps
/// no status, and without it nobody would know from which version the next one may come.
pub const SUCCEEDED: &str = "oxolm.dev/succeeded";
/// Annotation on revisions: the properties of the bundle, a JSON array of `{type, value}`.
pub const OLM_PROPERTIES: &str = "olm.properties";

/// Label on the Secrets of a revision: the revision's name.
pub const REVISION_NAME: &str = "olm.operatorframework.io/revision-name";
/// Label on revisions that the reference made from a Helm release: `true`.
pub const MIGRATED_FROM_HELM: &str = "olm.operatorframework.io/migrated-from-helm";
/// Label on every `ClusterCatalog`: its own name, by which selectors choose it.
pub const METADATA_NAME: &str = "olm.operatorframework.io/metadata.name";

/// The type of the Secrets that hold the objects of a revision.
pub const OBJECT_DATA_SECRET_TYPE: &str = "olm.operatorframework.io/object-data";

/// Finalizer of a `ClusterCatalog`: the served content is removed first.
pub const FINALIZER_DELETE_SERVER_CACHE: &str = "olm.operatorframework.io/delete-server-cache";
/// Finalizer of a `ClusterObjectSet`: its objects are taken down first.
pub const FINALIZER_TEARDOWN: &str = "olm.operatorframework.io/teardown";
/// Finalizer of a `ClusterExtension`: its revisions are taken down in order first. Ours.
pub const FINALIZER_UNINSTALL: &str = "oxolm.dev/uninstall";
/// Finalizers that the reference leaves on a `ClusterExtension`; removed where found.
pub const FOREIGN_FINALIZERS: &[&str] = &[
    "olm.operatorframework.io/cleanup-unpack-cache",
    "olm.operatorframework.io/cleanup-contentmanager-cache",
];

/// Field manager of the objects of a bundle.
pub const FIELD_MANAGER_OBJECTS: &str = "olm.operatorframework.io";
/// Field manager of an object of a bundle from its creation until its fields are claimed, at once.
///
/// The API server sorts entries of the same second by manager. This one comes before `kube-controller-manager`, which
/// writes the status of a workload within milliseconds, so the entry that is to be claimed stays the first.
pub const FIELD_MANAGER_CREATION: &str = "creation.olm.operatorframework.io";
/// Field manager of the labels and annotations of others on an object that was deleted and made anew: they are not ours.
pub const FIELD_MANAGER_CARRIED_OVER: &str = "oxolm.dev/carried-over";
/// Field manager of the revisions.
pub const FIELD_MANAGER_REVISIONS: &str = "olm.operatorframework.io/clusterextension-controller";
/// Field manager of webhook certificates: the Secret and the `caBundle` fields. Ours.
pub const FIELD_MANAGER_WEBHOOK_CERTIFICATES: &str = "oxolm.dev/webhook-certificates";

/// The prefix of our own annotations.
pub const OXOLM_PREFIX: &str = "oxolm.dev/";
/// Annotation on a `ClusterExtension`: what happens to CRDs that are no longer wanted: `keep-if-used` or `delete`.
pub const CRD_DELETION: &str = "oxolm.dev/crd-deletion";
/// Annotation on a `ClusterExtension`: kept CRDs that it may take over although they were somebody else's.
pub const ADOPT: &str = "oxolm.dev/adopt";
/// Annotation on a `ClusterExtension`: `schema-only` lets the comparison of CRDs decide alone, without a look at resources.
pub const CRD_UPGRADE_SAFETY: &str = "oxolm.dev/crd-upgrade-safety";
/// The value of [`CRD_UPGRADE_SAFETY`].
pub const CRD_UPGRADE_SAFETY_SCHEMA_ONLY: &str = "schema-only";
/// Annotation on a `ClusterExtension`: the digest of changed content of the installed version that is accepted.
pub const ACCEPT_DIGEST: &str = "oxolm.dev/accept-digest";
/// Annotation on revisions: the catalog that the bundle was taken from.
pub const CATALOG: &str = "oxolm.dev/catalog";
/// Annotation on revisions: the digest of the bundle's image.
pub const BUNDLE_DIGEST: &str = "oxolm.dev/bundle-digest";
/// Annotation on revisions: who provides webhook certificates, chosen at the first install.
pub const WEBHOOK_CERTIFICATES: &str = "oxolm.dev/webhook-certificates";
/// Annotation on a `ClusterExtension`, its revision and the Secrets of its webhooks: whatever new text stands there asks
/// for new certificates, if oxolm makes them.
pub const ROTATE_CERTIFICATES: &str = "oxolm.dev/rotate-certificates";
/// Annotation on CRDs, which carry no owner reference, and on objects of revisions that somebody wrote by hand: whose they
/// are, as JSON. It outlives the owner on a kept CRD.
pub const OWNER: &str = "oxolm.dev/owner";
/// Annotation on revisions: the hash of their content, by which a change is noticed.
pub const CONTENT: &str = "oxolm.dev/content";
/// On a revision: what was said about its CRDs when it was made, a JSON array of sentences.
pub const CRD_FINDINGS: &str = "oxolm.dev/crd-findings";
/// Annotation on a revision: the rights that its bundle gives and the one before it does not, a JSON list of sentences.
pub const PERMISSIONS_GAINED: &str = "oxolm.dev/permissions-gained";
/// Annotation on revisions: the namespace that the extension is installed in, where it is not that of the account.
pub const INSTALL_NAMESPACE: &str = "oxolm.dev/install-namespace";

/// The lease that decides who acts, the reference's own, so that both never act together.
pub const LEASE_NAME: &str = "9c4404e7.operatorframework.io";
/// The lease of the reference's catalog controller.
pub const CATALOGD_LEASE_NAME: &str = "catalogd-operator-lock";
/// The namespace that oxolm runs in unless told otherwise.
pub const DEFAULT_SYSTEM_NAMESPACE: &str = "olmv1-system";

/// Annotation of the `ClusterOperator` that oxolm owns; one without it is somebody else's.
pub const CLUSTER_OPERATOR: &str = "oxolm.dev/cluster-operator";

/// Annotation: an administrator who knows better than the bundle, `<major>.<minor>`.
pub const MAX_OPENSHIFT_VERSION: &str = "oxolm.dev/max-openshift-version";
