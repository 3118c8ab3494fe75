//! Questions asked before the first write: would a CRD change break somebody, has the account the rights.

pub mod crd_upgrade;
pub mod permissions;
pub mod resource;
