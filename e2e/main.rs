//! The stories on a real control plane.
fn main() {}
