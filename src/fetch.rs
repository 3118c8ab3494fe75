//! One flight per digest: canonicalize, pull, unpack.
