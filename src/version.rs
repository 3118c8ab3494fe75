//! Versions, releases and the two range languages.
