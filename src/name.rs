//! Names with rules, parsed once.
