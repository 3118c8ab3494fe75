//! What is found out about a schema and about a resource.

/// Something in a schema that cannot be judged here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gap {
    /// The path of the node, beginning with `^`.
    pub path: String,
    /// What it is, for people.
    pub what: String,
}

/// One reason for which a resource is not valid.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The path of the value, for instance `spec.ports[0].name`; empty for the resource itself.
    pub path: String,
    /// What it breaks, for people.
    pub problem: String,
}
