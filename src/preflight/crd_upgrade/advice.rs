//! What a user can do about a finding.

use super::{Check, Fate, Finding, Severity};

/// What to do about a field that is gone.
const REMOVED_FIELD: &str = "Keep the field in the schema (deprecated), or publish a new version without it; data in it would be lost.";

impl Finding {
    /// One sentence: what to do about it.
    pub fn advice(&self) -> &'static str {
        // What is said of a node that is gone is said by its removal; only such a change of type is open.
        let is_removal = self.check == Check::ExistingFieldRemoval
            || (self.check == Check::Type && self.fate == Fate::Open);
        if self.severity == Severity::Warning && self.was_error {
            return if is_removal {
                "No resource that was looked at uses the field; whoever still writes it loses it."
            } else {
                "No resource that was looked at and is valid today fails; tell those who write others what is allowed now."
            };
        }
        match self.check {
            Check::Type if is_removal => REMOVED_FIELD,
            Check::Scope => {
                "The scope of a CRD cannot change: publish a new kind, or delete the CRD with all its resources."
            }
            Check::ExistingFieldRemoval => REMOVED_FIELD,
            Check::StoredVersionRemoval => {
                "Write every resource again so that it is stored in a version that stays, then take the old one out of status.storedVersions."
            }
            Check::Enum
            | Check::Maximum
            | Check::MaxItems
            | Check::MaxLength
            | Check::MaxProperties
            | Check::Minimum
            | Check::MinItems
            | Check::MinLength
            | Check::MinProperties
            | Check::Required
            | Check::Pattern
            | Check::Nullable
            | Check::OneOf => {
                "Resources that are valid today may be refused: look at those that exist (--cluster or --resources), and change them first."
            }
            Check::Default => {
                "Resources that leave the field out will mean something else: set it in them before the upgrade, or accept the new default."
            }
            Check::Type => {
                "Values of the old type are refused and cannot be read: publish a new version of the kind with a conversion."
            }
            Check::Unhandled => {
                "Compare the two schemas by hand: the change is of a kind that no check understands."
            }
            Check::ServedVersion => {
                "Move clients and manifests to a version that stays before the upgrade."
            }
            Check::StorageVersion => {
                "Write every resource again after the upgrade, so that the old version can go one day."
            }
            Check::Conversion => {
                "Make sure that the webhook runs before resources of another version are asked for."
            }
            Check::Subresource => "Move clients that write the subresource to another field.",
            Check::PrinterColumn => "Scripts that read the columns of kubectl get need a look.",
            Check::Names => "Clients and manifests that use the old name need the new one.",
            Check::Removal => {
                "Look whether resources of it are still needed; while there are any, the CRD stays without an operator."
            }
            Check::StoredResources => {
                "Change the resources named here first; where they were not looked at, look at them yourself."
            }
            Check::MissingSchema => {
                "Ask the author for a schema: without one an API server refuses the CRD."
            }
        }
    }
}
