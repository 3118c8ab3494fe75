//! Content on disk, a directory per digest.
