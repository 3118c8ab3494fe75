//! What is enforced on a `ClusterCatalog`.

use super::Column;
use super::constraint::Constraint::{Matches, Number, Rule, Text, Texts};
use super::constraint::Table;

/// The registry of a reference: host names separated by dots, perhaps a port.
const DOMAIN: &str = r"^([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])((\.([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))+)?(:[0-9]+)?\b";
const DOMAIN_MESSAGE: &str = "the reference must begin with a registry: letters, digits and hyphens separated by '.', optionally followed by ':' and a port";

const HAS_NAME: &str = r"self.find(r'(\/[a-z0-9]+((([._]|__|[-]*)[a-z0-9]+)+)?((\/[a-z0-9]+((([._]|__|[-]*)[a-z0-9]+)+)?)+)?)') != ''";
const NAME_MESSAGE: &str = "the registry must be followed by '/' and the name of a repository: lower-case letters and digits separated by '.', '_', '__', '-' or '/'";

const ALGORITHM: &str = r"self.find('(@.*:)') != '' ? self.find('(@.*:)').matches('(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*[:])') : true";
const ALGORITHM_MESSAGE: &str = "the algorithm of the digest must begin with a letter and consist of letters and digits, separated by '-', '_', '+' or '.'";

const ENCODED_LENGTH: &str =
    "self.find('(@.*:)') != '' ? self.find(':.*$').substring(1).size() >= 32 : true";
const ENCODED_LENGTH_MESSAGE: &str = "the digest must have at least 32 characters after ':'";

const ENCODED: &str =
    "self.find('(@.*:)') != '' ? self.find(':.*$').matches(':[0-9A-Fa-f]*$') : true";
const ENCODED_MESSAGE: &str = "the digest must be hexadecimal after ':' (0-9, a-f, A-F)";

const IMAGE_UNION: &str =
    "has(self.type) && self.type == 'Image' ? has(self.image) : !has(self.image)";
const IMAGE_UNION_MESSAGE: &str = "image is required when type is Image, and forbidden otherwise";

/// What `kubectl get` shows.
pub(super) const COLUMNS: &[Column] = &[
    Column::always("LastUnpacked", "date", ".status.lastUnpacked"),
    Column::always(
        "Serving",
        "string",
        r#".status.conditions[?(@.type=="Serving")].status"#,
    ),
    Column::always("Age", "date", ".metadata.creationTimestamp"),
    Column::wide(
        "Progressing",
        "string",
        r#".status.conditions[?(@.type=="Progressing")].reason"#,
    ),
    Column::wide("Priority", "integer", ".spec.priority"),
    Column::wide("Source", "string", ".spec.source.image.ref"),
];

/// The rules, field by field.
pub(super) const TABLE: Table = &[
    ("", &[Texts("required", &["metadata", "spec"])]),
    ("spec.source", &[Rule(IMAGE_UNION, IMAGE_UNION_MESSAGE)]),
    (
        "spec.source.image",
        &[Rule(
            "self.ref.find('(@.*:)') != '' ? !has(self.pollIntervalMinutes) : true",
            "pollIntervalMinutes cannot be set for a reference with a digest, whose content never changes",
        )],
    ),
    (
        "spec.source.image.ref",
        &[
            Number("maxLength", 1000),
            Matches(DOMAIN, DOMAIN_MESSAGE),
            Rule(HAS_NAME, NAME_MESSAGE),
            Rule(
                "self.find('(@.*:)') != '' || self.find(':.*$') != ''",
                "the reference must end with a tag or a digest",
            ),
            Rule(
                "self.find('(@.*:)') == '' && self.find(':.*$') != '' ? self.find(':.*$').substring(1).size() <= 127 : true",
                "the tag must not be longer than 127 characters",
            ),
            Rule(
                r"self.find('(@.*:)') == '' && self.find(':.*$') != '' ? self.find(':.*$').matches(r':[\w][\w.-]*$') : true",
                "the tag must begin with a letter, a digit or '_', followed by letters, digits, '_', '.' or '-'",
            ),
            Rule(ALGORITHM, ALGORITHM_MESSAGE),
            Rule(ENCODED_LENGTH, ENCODED_LENGTH_MESSAGE),
            Rule(ENCODED, ENCODED_MESSAGE),
        ],
    ),
    (
        "spec.source.image.pollIntervalMinutes",
        &[Number("minimum", 1)],
    ),
    (
        "spec.priority",
        &[
            Number("minimum", i32::MIN as i64),
            Number("maximum", i32::MAX as i64),
        ],
    ),
    (
        "status.conditions",
        &[
            Text("x-kubernetes-list-type", "map"),
            Texts("x-kubernetes-list-map-keys", &["type"]),
        ],
    ),
    (
        "status.resolvedSource",
        &[Rule(IMAGE_UNION, IMAGE_UNION_MESSAGE)],
    ),
    (
        "status.resolvedSource.image.ref",
        &[
            Number("maxLength", 1000),
            Matches(DOMAIN, DOMAIN_MESSAGE),
            Rule(HAS_NAME, NAME_MESSAGE),
            Rule(
                "self.find('(@.*:)') != ''",
                "the reference must end with a digest",
            ),
            Rule(ALGORITHM, ALGORITHM_MESSAGE),
            Rule(ENCODED_LENGTH, ENCODED_LENGTH_MESSAGE),
            Rule(ENCODED, ENCODED_MESSAGE),
        ],
    ),
    (
        "status.urls.base",
        &[
            Number("maxLength", 525),
            Rule("isURL(self)", "base must be a URL"),
            Rule(
                "isURL(self) ? url(self).getScheme() == 'http' || url(self).getScheme() == 'https' : true",
                "base must be a URL with scheme http or https",
            ),
        ],
    ),
];
