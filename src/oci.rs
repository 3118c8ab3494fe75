//! References, digests and manifests of the Open Container Initiative.

pub mod digest;
pub mod manifest;
pub mod reference;
