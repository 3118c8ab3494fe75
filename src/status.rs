//! The only builders of conditions.
