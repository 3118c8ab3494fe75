//! The compression of a layer, told by its first bytes, as its media type may lie: gzip, zstd or none.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The largest window that a zstd frame may ask for, in bytes: what the zstd tool itself accepts (27 bits).
const MAX_ZSTD_WINDOW_BYTES: u64 = 128 << 20;

/// How many first bytes tell the compression.
const MAGIC_BYTES: usize = 6;

/// A compression that layers are not accepted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unsupported(pub(super) &'static str);

/// The uncompressed bytes of `raw`.
pub(super) fn decompress<'a>(
    mut raw: impl Read + 'a,
) -> io::Result<Result<Box<dyn Read + 'a>, Unsupported>> {
    let mut magic = Vec::with_capacity(MAGIC_BYTES);
    raw.by_ref()
        .take(MAGIC_BYTES as u64)
        .read_to_end(&mut magic)?;
    let name = compression(&magic);
    let whole = BufReader::with_capacity(64 << 10, Cursor::new(magic).chain(raw));
    Ok(match name {
        "none" => Ok(Box::new(whole)),
        "gzip" => Ok(Box::new(MultiGzDecoder::new(whole))),
        "zstd" => Ok(Box::new(ZstdFrames::new(whole))),
        other => Err(Unsupported(other)),
    })
}

fn compression(magic: &[u8]) -> &'static str {
    match magic {
        [0x1f, 0x8b, ..] => "gzip",
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => "zstd",
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => "bzip2",
        [0xfd, b'7', b'z', b'X', b'Z', 0] => "xz",
        [0x04, 0x22, 0x4d, 0x18, ..] => "lz4",
        [b'L', b'Z', b'I', b'P', ..] => "lzip",
        _ => "none",
    }
}

/// All frames of a zstd stream, one after the other; skippable ones are skipped.
struct ZstdFrames<R> {
    source: R,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    fn new(source: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_ZSTD_WINDOW_BYTES);
        Self {
            source,
            decoder,
            in_frame: false,
        }
    }

    /// Goes to the next frame with content. `false` at the end of the stream.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let skipped =
                        io::copy(&mut self.source.by_ref().take(length), &mut io::sink())?;
                    if skipped < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(zstd(error)),
            }
        }
        Ok(false)
    }

    fn check_sum(&self) -> io::Result<()> {
        match (
            self.decoder.get_checksum_from_data(),
            self.decoder.get_calculated_checksum(),
        ) {
            (Some(expected), Some(actual)) if expected != actual => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "zstd checksum mismatch",
            )),
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.in_frame {
                if self.decoder.can_collect() > 0 {
                    return self.decoder.read(buffer);
                }
                if !self.decoder.is_finished() {
                    self.decoder
                        .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                        .map_err(zstd)?;
                    continue;
                }
                self.check_sum()?;
                self.in_frame = false;
            }
            if !self.next_frame()? {
                return Ok(0);
            }
            self.in_frame = true;
        }
    }
}

fn zstd(error: FrameDecoderError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;
    use crate::testing::mutation::{edits, mutated};

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd_frame(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        decompress(bytes)?
            .map_err(|e| io::Error::other(e.0))?
            .read_to_end(&mut text)?;
        Ok(text)
    }

    #[test]
    fn gzip_zstd_and_plain_are_told_by_their_first_bytes() {
        let skippable = [&[0x51, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"xyz"].concat();
        for bytes in [
            b"hello world".to_vec(),
            gzip(b"hello world"),
            [gzip(b"hello "), gzip(b"world")].concat(),
            zstd_frame(b"hello world"),
            [
                zstd_frame(b"hello "),
                skippable.clone(),
                zstd_frame(b"world"),
                skippable.clone(),
            ]
            .concat(),
            [skippable, zstd_frame(b"hello world")].concat(),
        ] {
            assert_eq!(read(&bytes).unwrap(), b"hello world");
        }
        assert_eq!(read(b"").unwrap(), b"");
        assert_eq!(read(b"a").unwrap(), b"a");
    }

    #[test]
    fn other_compressions_are_refused_by_name() {
        for (bytes, expected) in [
            (&b"BZh91AY"[..], "bzip2"),
            (b"\xfd7zXZ\0", "xz"),
            (b"\x04\x22\x4d\x18x", "lz4"),
            (b"LZIP\x01", "lzip"),
        ] {
            assert_eq!(read(bytes).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn truncated_streams_are_errors() {
        let text: Vec<u8> = (0..20_000_u32).flat_map(u32::to_le_bytes).collect();
        for whole in [gzip(&text), zstd_frame(&text)] {
            assert_eq!(read(&whole).unwrap(), text);
            for cut in [whole.len() / 2, whole.len() - 1] {
                assert!(read(&whole[..cut]).is_err(), "{cut} of {}", whole.len());
            }
        }
    }

    proptest! {
        #[test]
        fn mutated_streams_never_panic(at in 0_usize..60, byte in any::<u8>(), which in any::<bool>()) {
            let mut bytes = if which { gzip(&[7; 500]) } else { zstd_frame(&[7; 500]) };
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(Ok(reader)) = decompress(&bytes[..]) {
                // Only the absence of a panic matters here.
                _ = io::copy(&mut reader.take(1 << 20), &mut io::sink());
            }
        }

        #[test]
        fn arbitrary_streams_never_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), edits in edits(), magic in 0..4_usize
        ) {
            let magic: &[u8] = [&b"\x1f\x8b\x08"[..], b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18", b""][magic];
            let text: Vec<u8> = (0..2000_u32).flat_map(u32::to_le_bytes).collect();
            for bytes in [
                [magic, &bytes].concat(),
                mutated(&gzip(&text), &edits),
                mutated(&zstd_frame(&text), &edits),
            ] {
                if let Ok(Ok(reader)) = decompress(&bytes[..]) {
                    // Only the absence of a panic matters here.
                    _ = io::copy(&mut reader.take(1 << 20), &mut io::sink());
                }
            }
        }
    }
}
