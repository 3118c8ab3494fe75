//! The wire types of the three kinds, with their CEL rules, and the well-known keys.
