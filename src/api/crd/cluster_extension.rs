//! What is enforced on a `ClusterExtension`.

use super::Column;
use super::constraint::Constraint::{Flag, Matches, Number, Rule, RuleAt, Text, Texts};
use super::constraint::Table;
use super::{DNS1123_LABEL, DNS1123_SUBDOMAIN};
use crate::version::range::{ADMISSION_PATTERN, MAX_ADMITTED_CHARACTERS};

/// The schema's numbers are signed.
#[expect(clippy::cast_possible_wrap, reason = "the limit is a two-digit number")]
const MAX_VERSION_CHARACTERS: i64 = MAX_ADMITTED_CHARACTERS as i64;

/// The version of an installed bundle.
const BUNDLE_VERSION: &str = r"^([0-9]+)(\.[0-9]+)?(\.[0-9]+)?(-([-0-9A-Za-z]+(\.[-0-9A-Za-z]+)*))?(\+([-0-9A-Za-z]+(-\.[-0-9A-Za-z]+)*))?";

/// The release of an installed bundle: empty, or identifiers separated by dots.
const BUNDLE_RELEASE: &str = r"^$|^(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*$";

/// What `kubectl get` shows.
pub(super) const COLUMNS: &[Column] = &[
    Column::always("Installed Bundle", "string", ".status.install.bundle.name"),
    Column::always("Version", "string", ".status.install.bundle.version"),
    Column::always(
        "Installed",
        "string",
        ".status.conditions[?(@.type=='Installed')].status",
    ),
    Column::always(
        "Progressing",
        "string",
        ".status.conditions[?(@.type=='Progressing')].status",
    ),
    Column::always("Age", "date", ".metadata.creationTimestamp"),
    Column::wide(
        "Reason",
        "string",
        ".status.conditions[?(@.type=='Progressing')].reason",
    ),
    Column::wide(
        "Available Update",
        "string",
        ".status.availableUpdate.version",
    ),
    Column::wide("Catalog", "string", ".status.install.catalog"),
    Column::wide("Namespace", "string", ".spec.namespace"),
    Column::wide("Account", "string", ".spec.serviceAccount.name"),
];

/// The rules, field by field.
pub(super) const TABLE: Table = &[
    ("", &[Texts("required", &["spec"])]),
    (
        "spec",
        &[
            // On `spec`, since a rule on the name itself would not run when its parent is removed.
            RuleAt(
                ".serviceAccount.name",
                "!has(oldSelf.serviceAccount) || (has(self.serviceAccount) && self.serviceAccount.name == oldSelf.serviceAccount.name)",
                "name is immutable",
            ),
        ],
    ),
    (
        "spec.namespace",
        &[
            Number("maxLength", 63),
            Rule("self == oldSelf", "namespace is immutable"),
            Matches(DNS1123_LABEL, "namespace must be a valid DNS1123 label"),
        ],
    ),
    (
        "spec.serviceAccount.name",
        &[
            Number("maxLength", 253),
            Matches(
                DNS1123_SUBDOMAIN,
                "name must be a valid DNS1123 subdomain. It must contain only lowercase alphanumeric characters, hyphens (-) or periods (.), start and end with an alphanumeric character, and be no longer than 253 characters",
            ),
        ],
    ),
    (
        "spec.source",
        &[Rule(
            "has(self.sourceType) && self.sourceType == 'Catalog' ? has(self.catalog) : !has(self.catalog)",
            "catalog is required when sourceType is Catalog, and forbidden otherwise",
        )],
    ),
    (
        // Neither `spec`, nor `source`, nor `catalog` can be removed, so this rule always runs.
        "spec.source.catalog.packageName",
        &[
            Number("maxLength", 253),
            Rule("self == oldSelf", "packageName is immutable"),
            Matches(
                DNS1123_SUBDOMAIN,
                "packageName must be a valid DNS1123 subdomain. It must contain only lowercase alphanumeric characters, hyphens (-) or periods (.), start and end with an alphanumeric character, and be no longer than 253 characters",
            ),
        ],
    ),
    (
        "spec.source.catalog.version",
        &[
            Number("maxLength", MAX_VERSION_CHARACTERS),
            Matches(ADMISSION_PATTERN, "invalid version expression"),
        ],
    ),
    ("spec.source.catalog.channels", &[Number("maxItems", 256)]),
    (
        "spec.source.catalog.channels[]",
        &[
            Number("maxLength", 253),
            Matches(
                DNS1123_SUBDOMAIN,
                "channels entries must be valid DNS1123 subdomains",
            ),
        ],
    ),
    (
        "spec.source.catalog.selector",
        &[Text("x-kubernetes-map-type", "atomic")],
    ),
    (
        "spec.source.catalog.selector.matchExpressions",
        &[Text("x-kubernetes-list-type", "atomic")],
    ),
    (
        "spec.source.catalog.selector.matchExpressions[].values",
        &[Text("x-kubernetes-list-type", "atomic")],
    ),
    (
        "spec.install",
        &[Rule(
            "has(self.preflight)",
            "at least one of [preflight] are required when install is specified",
        )],
    ),
    (
        "spec.install.preflight",
        &[
            Texts("required", &["crdUpgradeSafety"]),
            Rule(
                "has(self.crdUpgradeSafety)",
                "at least one of [crdUpgradeSafety] are required when preflight is specified",
            ),
        ],
    ),
    (
        "spec.config",
        &[Rule(
            "has(self.configType) && self.configType == 'Inline' ? has(self.inline) : !has(self.inline)",
            "inline is required when configType is Inline, and forbidden otherwise",
        )],
    ),
    (
        "spec.config.inline",
        &[
            Number("minProperties", 1),
            Flag("x-kubernetes-preserve-unknown-fields"),
        ],
    ),
    (
        "spec.progressDeadlineMinutes",
        &[Number("minimum", 10), Number("maximum", 720)],
    ),
    (
        "status.conditions",
        &[
            Text("x-kubernetes-list-type", "map"),
            Texts("x-kubernetes-list-map-keys", &["type"]),
        ],
    ),
    (
        // Differs from the reference: every name that a catalog can hold is accepted, not DNS-1123 only; else the
        // status of an extension whose bundle's name holds `+`, `_` or upper case could never be written.
        "status.install.bundle.name",
        &[Number("maxLength", 253)],
    ),
    (
        "status.install.bundle.version",
        &[Matches(
            BUNDLE_VERSION,
            "version must be well-formed semver",
        )],
    ),
    (
        "status.install.bundle.release",
        &[
            Number("maxLength", 20),
            Matches(
                BUNDLE_RELEASE,
                "release must be empty or consist of dot-separated identifiers (numeric without leading zeros, or alphanumeric)",
            ),
        ],
    ),
    ("status.install.catalog", &[Number("maxLength", 253)]),
    ("status.availableUpdate.bundle", &[Number("maxLength", 253)]),
    (
        "status.activeRevisions",
        &[
            Text("x-kubernetes-list-type", "map"),
            Texts("x-kubernetes-list-map-keys", &["name"]),
        ],
    ),
    (
        "status.activeRevisions[].conditions",
        &[
            Text("x-kubernetes-list-type", "map"),
            Texts("x-kubernetes-list-map-keys", &["type"]),
        ],
    ),
];
