//! Counts the bytes on both sides of a decompressor, and stops their flow at a limit.

use std::cell::Cell;
use std::io::{self, Read};

use super::limits::Limits;

/// The most bytes of headers before one entry: long names and extended attributes of real archives stay far below.
pub(super) const MAX_HEADER_BYTES: u64 = 2 << 20;

/// Counts what flows, and stops the flow at a limit. Shared by the readers on both sides of the decompressor.
pub(super) struct Meter<'a> {
    limits: &'a Limits,
    compressed: Cell<u64>,
    uncompressed: Cell<u64>,
    /// How many bytes may still flow before the next entry must have begun.
    pub(super) until_entry: Cell<Option<u64>>,
    /// What there was too much of, and the limit.
    pub(super) exceeded: Cell<Option<(&'static str, u64)>>,
}

/// The reader before the decompressor.
pub(super) struct Compressed<'m, R>(pub(super) R, pub(super) &'m Meter<'m>);

/// The reader behind the decompressor.
pub(super) struct Uncompressed<'m, R>(pub(super) R, pub(super) &'m Meter<'m>);

impl<'a> Meter<'a> {
    /// A meter for all layers of an image.
    pub(super) fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            compressed: Cell::new(0),
            uncompressed: Cell::new(0),
            until_entry: Cell::new(None),
            exceeded: Cell::new(None),
        }
    }
}

impl Meter<'_> {
    fn exceed(&self, what: &'static str, limit: u64) -> io::Error {
        self.exceeded.set(Some((what, limit)));
        io::Error::other("limit exceeded")
    }

    fn flowed(&self, count: u64) -> io::Result<()> {
        let total = self.uncompressed.get().saturating_add(count);
        self.uncompressed.set(total);
        let limits = self.limits;
        if total > limits.uncompressed_bytes {
            return Err(self.exceed("uncompressed bytes", limits.uncompressed_bytes));
        }
        let allowed = self
            .compressed
            .get()
            .saturating_mul(limits.expansion_ratio)
            .max(limits.expansion_grace_bytes);
        if total > allowed {
            return Err(self.exceed(
                "uncompressed bytes per compressed byte",
                limits.expansion_ratio,
            ));
        }
        if let Some(left) = self.until_entry.get() {
            let Some(left) = left.checked_sub(count) else {
                return Err(self.exceed("bytes of headers of one entry", MAX_HEADER_BYTES));
            };
            self.until_entry.set(Some(left));
        }
        Ok(())
    }
}

impl<R: Read> Read for Compressed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        self.1
            .compressed
            .set(self.1.compressed.get() + count as u64);
        Ok(count)
    }
}

impl<R: Read> Read for Uncompressed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        self.1.flowed(count as u64)?;
        Ok(count)
    }
}
