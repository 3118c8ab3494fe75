#![expect(
    clippy::disallowed_methods,
    reason = "shell: reads what was just written"
)]
//! The blobs once more, compressed with zstd as one frame.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use ruzstd::encoding::{CompressionLevel, FrameCompressor};

use super::publish::Summed;
use super::{BLOBS, CatalogError, ZSTD, disk};
use crate::store::FileDescription;

/// Compresses the blobs in `target` into a file beside them.
pub(super) fn write(target: &Path) -> Result<FileDescription, CatalogError> {
    let blobs = Path::new(BLOBS);
    let plain = File::open(target.join(BLOBS)).map_err(disk("open", blobs))?;
    let mut source = Quiet::new(BufReader::with_capacity(64 << 10, plain));
    let mut drain = Quiet::new(Summed::create(target, ZSTD)?);
    let mut compressor = FrameCompressor::new(CompressionLevel::Fastest);
    compressor.set_source(&mut source);
    compressor.set_drain(&mut drain);
    compressor.compress();
    drop(compressor);
    source.result.map_err(disk("read", blobs))?;
    drain.result.map_err(disk("write", Path::new(ZSTD)))?;
    drain.inner.finish(ZSTD)
}

/// Compresses what is in memory.
pub(crate) fn compressed(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// A file that shows no failure but remembers it: the compressor takes every one for a bug.
struct Quiet<T> {
    inner: T,
    result: io::Result<()>,
}

impl<T> Quiet<T> {
    fn new(inner: T) -> Self {
        Self {
            inner,
            result: Ok(()),
        }
    }
}

impl<T: Read> Read for Quiet<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.result.is_err() {
            return Ok(0);
        }
        loop {
            match self.inner.read(buffer) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.result = Err(error);
                    return Ok(0);
                }
            }
        }
    }
}

impl<T: Write> Write for Quiet<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.result.is_ok() {
            self.result = self.inner.write_all(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("broken"))
        }
    }

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_failure_is_remembered_and_not_shown() {
        let mut source = Quiet::new(Broken);
        let mut drain = Quiet::new(Broken);
        let mut compressor = FrameCompressor::new(CompressionLevel::Fastest);
        compressor.set_source(&mut source);
        compressor.set_drain(&mut drain);
        compressor.compress();
        drop(compressor);
        assert_eq!(source.result.unwrap_err().to_string(), "broken");
        assert_eq!(drain.result.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
