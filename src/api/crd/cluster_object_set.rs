//! What is enforced on a `ClusterObjectSet`.
//!
//! Differs from the reference: rules that freeze a list stand on its parent, since a rule on the list itself does
//! not run when the list is removed: it could be removed in one write and come back different in the next.

use super::Column;
use super::DNS1123_LABEL;
use super::constraint::Constraint::{Flag, Matches, Number, Rule, RuleAt, Text, Texts};
use super::constraint::Table;

const PHASE_NAME_MESSAGE: &str = "the value must consist of only lowercase alphanumeric characters and hyphens, and must start and end with an alphanumeric character.";

const FIELD_PATH: &str = r"^[a-zA-Z0-9]+(?:\.[a-zA-Z0-9]+)*$";
const FIELD_PATH_MESSAGE: &str = "must contain a valid field path. valid fields contain upper or lower-case alphanumeric characters separated by the \".\" character.";

/// What `kubectl get` shows.
pub(super) const COLUMNS: &[Column] = &[
    Column::always(
        "Available",
        "string",
        ".status.conditions[?(@.type=='Available')].status",
    ),
    Column::always(
        "Progressing",
        "string",
        ".status.conditions[?(@.type=='Progressing')].status",
    ),
    Column::always("Age", "date", ".metadata.creationTimestamp"),
    Column::wide("State", "string", ".spec.lifecycleState"),
    Column::wide("Revision", "integer", ".spec.revision"),
    Column::wide(
        "Version",
        "string",
        r".metadata.annotations.olm\.operatorframework\.io/bundle-version",
    ),
    Column::wide(
        "Account",
        "string",
        r".metadata.annotations.olm\.operatorframework\.io/service-account-name",
    ),
];

/// The rules, field by field.
pub(super) const TABLE: Table = &[
    ("", &[Texts("required", &["spec"])]),
    (
        "spec",
        &[RuleAt(
            ".phases",
            "!has(oldSelf.phases) || oldSelf.phases.size() == 0 || (has(self.phases) && self.phases == oldSelf.phases)",
            "phases is immutable",
        )],
    ),
    (
        "spec.lifecycleState",
        &[Rule(
            "oldSelf == 'Active' || self == oldSelf",
            "cannot un-archive",
        )],
    ),
    (
        "spec.revision",
        &[
            Number("minimum", 1),
            Rule("self == oldSelf", "revision is immutable"),
        ],
    ),
    (
        "spec.collisionProtection",
        &[Rule("self == oldSelf", "collisionProtection is immutable")],
    ),
    (
        "spec.phases",
        &[
            Number("maxItems", 20),
            Text("x-kubernetes-list-type", "map"),
            Texts("x-kubernetes-list-map-keys", &["name"]),
        ],
    ),
    (
        "spec.phases[].name",
        &[
            Number("minLength", 1),
            Number("maxLength", 63),
            Matches(DNS1123_LABEL, PHASE_NAME_MESSAGE),
        ],
    ),
    (
        "spec.phases[].objects",
        &[
            Number("maxItems", 50),
            Text("x-kubernetes-list-type", "atomic"),
        ],
    ),
    (
        "spec.phases[].objects[]",
        &[Rule(
            "has(self.object) != has(self.ref)",
            "exactly one of the fields in [object ref] must be set",
        )],
    ),
    (
        "spec.phases[].objects[].object",
        &[
            Flag("x-kubernetes-embedded-resource"),
            Flag("x-kubernetes-preserve-unknown-fields"),
        ],
    ),
    (
        "spec.phases[].objects[].ref.name",
        &[Number("minLength", 1), Number("maxLength", 253)],
    ),
    (
        "spec.phases[].objects[].ref.namespace",
        &[Number("maxLength", 63)],
    ),
    (
        "spec.phases[].objects[].ref.key",
        &[Number("minLength", 1), Number("maxLength", 253)],
    ),
    (
        "spec.progressDeadlineMinutes",
        &[Number("minimum", 10), Number("maximum", 720)],
    ),
    (
        "spec.progressionProbes",
        &[
            Number("minItems", 1),
            Number("maxItems", 20),
            Text("x-kubernetes-list-type", "atomic"),
        ],
    ),
    (
        "spec.progressionProbes[].selector",
        &[
            Rule(
                "self.type == 'GroupKind' ? has(self.groupKind) : !has(self.groupKind)",
                "groupKind is required when type is GroupKind, and forbidden otherwise",
            ),
            Rule(
                "self.type == 'Label' ? has(self.label) : !has(self.label)",
                "label is required when type is Label, and forbidden otherwise",
            ),
        ],
    ),
    (
        "spec.progressionProbes[].selector.label",
        &[
            Text("x-kubernetes-map-type", "atomic"),
            Rule(
                "has(self.matchLabels) != has(self.matchExpressions)",
                "exactly one of matchLabels or matchExpressions must be set",
            ),
        ],
    ),
    (
        "spec.progressionProbes[].selector.label.matchExpressions",
        &[Text("x-kubernetes-list-type", "atomic")],
    ),
    (
        "spec.progressionProbes[].selector.label.matchExpressions[].values",
        &[Text("x-kubernetes-list-type", "atomic")],
    ),
    (
        "spec.progressionProbes[].assertions",
        &[
            Number("minItems", 1),
            Number("maxItems", 20),
            Text("x-kubernetes-list-type", "atomic"),
        ],
    ),
    (
        "spec.progressionProbes[].assertions[]",
        &[
            Rule(
                "self.type == 'ConditionEqual' ? has(self.conditionEqual) : !has(self.conditionEqual)",
                "conditionEqual is required when type is ConditionEqual, and forbidden otherwise",
            ),
            Rule(
                "self.type == 'FieldsEqual' ? has(self.fieldsEqual) : !has(self.fieldsEqual)",
                "fieldsEqual is required when type is FieldsEqual, and forbidden otherwise",
            ),
            Rule(
                "self.type == 'FieldValue' ? has(self.fieldValue) : !has(self.fieldValue)",
                "fieldValue is required when type is FieldValue, and forbidden otherwise",
            ),
        ],
    ),
    (
        "spec.progressionProbes[].assertions[].conditionEqual.type",
        &[Number("minLength", 1), Number("maxLength", 200)],
    ),
    (
        "spec.progressionProbes[].assertions[].fieldsEqual.fieldA",
        &[
            Number("minLength", 1),
            Number("maxLength", 200),
            Matches(FIELD_PATH, FIELD_PATH_MESSAGE),
        ],
    ),
    (
        "spec.progressionProbes[].assertions[].fieldsEqual.fieldB",
        &[
            Number("minLength", 1),
            Number("maxLength", 200),
            Matches(FIELD_PATH, FIELD_PATH_MESSAGE),
        ],
    ),
    (
        "spec.progressionProbes[].assertions[].fieldValue.fieldPath",
        &[
            Number("minLength", 1),
            Number("maxLength", 200),
            Matches(FIELD_PATH, FIELD_PATH_MESSAGE),
        ],
    ),
    (
        "spec.progressionProbes[].assertions[].fieldValue.value",
        &[Number("minLength", 1), Number("maxLength", 200)],
    ),
    (
        "status",
        &[RuleAt(
            ".observedPhases",
            "!has(oldSelf.observedPhases) || oldSelf.observedPhases.size() == 0 || (has(self.observedPhases) && self.observedPhases == oldSelf.observedPhases)",
            "observedPhases is immutable",
        )],
    ),
    (
        "status.conditions",
        &[
            Text("x-kubernetes-list-type", "map"),
            Texts("x-kubernetes-list-map-keys", &["type"]),
        ],
    ),
    (
        "status.observedPhases",
        &[
            Number("maxItems", 20),
            Text("x-kubernetes-list-type", "map"),
            Texts("x-kubernetes-list-map-keys", &["name"]),
        ],
    ),
    (
        "status.observedPhases[].name",
        &[
            Number("minLength", 1),
            Number("maxLength", 63),
            Matches(DNS1123_LABEL, PHASE_NAME_MESSAGE),
        ],
    ),
    (
        "status.observedPhases[].digest",
        &[
            Number("minLength", 1),
            Number("maxLength", 256),
            Matches(
                "^[a-z0-9]+:[a-fA-F0-9]+$",
                "digest must be in the format '<algorithm>:<hex>'",
            ),
        ],
    ),
];
