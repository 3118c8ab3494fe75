//! What a bundle asks for.
