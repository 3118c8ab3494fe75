//! The wire types of the three kinds, with their CEL rules, and the well-known keys.
//!
//! Group `olm.operatorframework.io`, version `v1`, all cluster-scoped. Fields, limits and messages are those of
//! the reference (operator-framework/operator-controller), stable and experimental together; what oxolm adds is
//! additive. The types only carry what is on the wire: core computes with types of its own.
//!
//! [`crd`] turns the types into `CustomResourceDefinition`s.

pub mod cluster_catalog;
pub mod cluster_extension;
pub mod cluster_object_set;
pub mod condition;
pub mod crd;
pub mod keys;
pub mod object;
pub mod policy;

pub use cluster_catalog::{ClusterCatalog, ClusterCatalogSpec, ClusterCatalogStatus};
pub use cluster_extension::{ClusterExtension, ClusterExtensionSpec, ClusterExtensionStatus};
pub use cluster_object_set::{ClusterObjectSet, ClusterObjectSetSpec, ClusterObjectSetStatus};
pub use condition::Condition;

/// The API group of the three kinds.
pub const GROUP: &str = "olm.operatorframework.io";

/// The only version, served and stored.
pub const VERSION: &str = "v1";

/// The plural name of `ClusterExtension`, as in paths.
pub const EXTENSIONS: &str = "clusterextensions";

/// The plural name of `ClusterObjectSet`, as in paths.
pub const OBJECT_SETS: &str = "clusterobjectsets";
