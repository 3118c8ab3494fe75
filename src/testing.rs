//! Fakes on the wire, builders that read as sentences, and the test of the walls.

mod walls;
