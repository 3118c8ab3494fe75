//! Pulling from OCI registries.
