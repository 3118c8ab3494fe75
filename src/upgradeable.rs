//! `olm.maxOpenShiftVersion` and the cluster's version to a verdict.
