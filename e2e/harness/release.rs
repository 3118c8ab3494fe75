//! What the chart is installed as.

/// The namespace that the chart is installed in.
pub(crate) const SYSTEM_NAMESPACE: &str = "olmv1-system";

/// The name of the release, and with it of the controller's service account.
pub(crate) const RELEASE: &str = "oxolm";
