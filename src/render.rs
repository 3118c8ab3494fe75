//! Bundle to manifests.
