//! Choosing a bundle.
