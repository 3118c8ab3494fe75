//! `ClusterObjectSet`: one revision of an extension, a list of objects in phases.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The objects of one revision.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "olm.operatorframework.io",
    version = "v1",
    kind = "ClusterObjectSet",
    status = "ClusterObjectSetStatus",
    derive = "PartialEq",
    doc = "ClusterObjectSet is one revision of a ClusterExtension: the objects of one bundle, applied phase by phase and kept as they should be. oxolm writes it; people read it."
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterObjectSetSpec {
    /// `"Active"`: the objects are applied and kept as they should be. `"Archived"`: the objects that no later
    /// revision has taken over are removed. There is no way back from `"Archived"`.
    pub lifecycle_state: LifecycleState,

    /// The number of the revision, counted from 1. It cannot be changed.
    pub revision: i64,

    /// What happens to an object that exists already and is not of this revision. `"Prevent"`: an object that this
    /// revision or an earlier one did not create is left alone, and the revision does not proceed.
    /// `"IfNoController"`: an object without a controlling owner is taken over. `"None"`: any object is taken over.
    /// A phase, and an object in it, may say otherwise for itself. It cannot be changed.
    pub collision_protection: CollisionProtection,

    /// The objects, in phases that are applied one after the other, each when the objects of the phase before
    /// pass their probes. At most 20 phases. It cannot be changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,

    /// How long, in minutes from 10 to 720, the revision may take to become available before Progressing turns
    /// False with reason `ProgressDeadlineExceeded`. Without it there is no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_deadline_minutes: Option<i32>,

    /// When an object counts as available: it must pass the assertions of every probe that selects it, and its status must
    /// be current. One that no probe selects is available once it is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub progression_probes: Vec<ProgressionProbe>,
}

/// Whether a revision is kept up or taken down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum LifecycleState {
    /// The objects are applied.
    #[default]
    Active,
    /// The objects are removed.
    Archived,
}

/// What happens to an object that exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum CollisionProtection {
    /// It is left alone.
    #[default]
    Prevent,
    /// It is taken over if nobody controls it.
    IfNoController,
    /// It is taken over.
    None,
}

/// Objects that are applied together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Phase {
    /// The name of the phase, unique in the revision.
    ///
    /// A DNS-1123 label: at most 63 lower-case letters, digits and hyphens, beginning and ending with a letter or
    /// digit.
    pub name: String,

    /// The objects, at most 50.
    pub objects: Vec<PhaseObject>,

    /// Replaces the `collisionProtection` of the revision for the objects of this phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_protection: Option<CollisionProtection>,
}

/// One object, written out or referred to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseObject {
    /// The object itself. Exactly one of `"object"` and `"ref"` must be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<serde_json::Map<String, serde_json::Value>>,

    /// A key of a Secret that holds the object as JSON, which may be compressed with gzip. Exactly one of
    /// `"object"` and `"ref"` must be set.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<ObjectReference>,

    /// Replaces the `collisionProtection` of the phase for this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_protection: Option<CollisionProtection>,
}

/// One key of one Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectReference {
    /// The name of the Secret.
    pub name: String,

    /// The namespace of the Secret. Without it the namespace that oxolm runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,

    /// The key in the data of the Secret.
    pub key: String,
}

/// Assertions for the objects that a selector matches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgressionProbe {
    /// The objects that the assertions are for.
    pub selector: ObjectSelector,

    /// What must hold for each of these objects, at most 20 assertions.
    pub assertions: Vec<Assertion>,
}

/// A union, told apart by `type`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSelector {
    /// How objects are selected: by `"GroupKind"` or by `"Label"`.
    #[serde(rename = "type")]
    pub selector_type: SelectorType,

    /// Selects the objects of one kind. Required when type is `"GroupKind"`, and forbidden otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_kind: Option<GroupKind>,

    /// Selects objects by their labels, with either `matchLabels` or `matchExpressions`. Required when type is
    /// `"Label"`, and forbidden otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<LabelSelector>,
}

/// How objects are selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectorType {
    /// By group and kind.
    GroupKind,
    /// By labels.
    Label,
}

/// A kind without its version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupKind {
    /// The API group, empty for the core group.
    pub group: String,

    /// The kind.
    pub kind: String,
}

/// A union, told apart by `type`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Assertion {
    /// What is asserted: `"ConditionEqual"`, `"FieldsEqual"` or `"FieldValue"`.
    #[serde(rename = "type")]
    pub assertion_type: AssertionType,

    /// A condition of the object has a status. Required when type is `"ConditionEqual"`, and forbidden otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition_equal: Option<ConditionEqual>,

    /// Two fields of the object are equal. Required when type is `"FieldsEqual"`, and forbidden otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields_equal: Option<FieldsEqual>,

    /// A field of the object has a value. Required when type is `"FieldValue"`, and forbidden otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_value: Option<FieldValue>,
}

/// What is asserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AssertionType {
    /// A condition has a status.
    ConditionEqual,
    /// Two fields are equal.
    FieldsEqual,
    /// A field has a value.
    FieldValue,
}

/// A condition has a status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionEqual {
    /// The type of the condition.
    #[serde(rename = "type")]
    pub condition_type: String,

    /// The status that it must have.
    pub status: ExpectedStatus,
}

/// The status that a condition must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExpectedStatus {
    /// `True`
    True,
    /// `False`
    False,
}

/// Two fields are equal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldsEqual {
    /// The path of one field, its names separated by dots, such as spec.replicas.
    pub field_a: String,

    /// The path of the other field, its names separated by dots, such as status.readyReplicas.
    pub field_b: String,
}

/// A field has a value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldValue {
    /// The path of the field, its names separated by dots, such as status.phase.
    pub field_path: String,

    /// The value that it must have, as text.
    pub value: String,
}

/// What is observed of the revision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterObjectSetStatus {
    /// The generation of the spec that the status as a whole was last computed for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The state of the revision.
    ///
    /// `"Progressing"` tells how far the rollout is, `"Available"` whether the objects pass their probes, `"Succeeded"`
    /// is True from the first time that all of them did. `"Ready"`, `"Reconciling"` and `"Stalled"` sum it up in the
    /// terms of kstatus.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,

    /// A digest of the content of each phase, taken when it was first read, by which a later change of a referred
    /// Secret is noticed. It cannot be changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed_phases: Vec<ObservedPhase>,
}

/// The digest of one phase.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ObservedPhase {
    /// The name of the phase.
    pub name: String,

    /// The digest, such as `sha256:<64 hexadecimal digits>`.
    pub digest: String,
}
