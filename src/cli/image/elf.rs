//! What a program says of itself in the header of its file
//! ([ELF](https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html)): for which processor it was made, and whether it needs
//! a dynamic linker, which an image without anything else does not have.

/// How every program begins.
const MAGIC: &[u8] = b"\x7fELF";
/// Class: 64 bits.
const BITS_64: u8 = 2;
/// Encoding: the least significant byte first.
const LITTLE_ENDIAN: u8 = 1;
/// The kind of a program header that names the dynamic linker.
const INTERPRETER: u32 = 3;

/// Whether a file that begins so is a program.
pub(super) fn is_program(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

/// The processor that a static program was made for, in the words of images: `amd64`, …
///
/// # Errors
/// A text that says why it is no program that can run alone.
pub(super) fn architecture_of_static(program: &[u8]) -> Result<&'static str, String> {
    if !is_program(program) {
        return Err("it is no Linux program (ELF)".to_owned());
    }
    let cut = || "its header is cut off".to_owned();
    let class = (
        *program.get(4).ok_or_else(cut)?,
        *program.get(5).ok_or_else(cut)?,
    );
    if class != (BITS_64, LITTLE_ENDIAN) {
        return Err("it is not for a little-endian processor of 64 bits".to_owned());
    }
    let machine = number(program, 18, 2).ok_or_else(cut)?;
    let architecture = match machine {
        62 => "amd64",
        183 => "arm64",
        21 => "ppc64le",
        243 => "riscv64",
        _ => {
            return Err(format!(
                "its processor (ELF machine {machine}) has no name here"
            ));
        }
    };
    let start = number(program, 32, 8).ok_or_else(cut)?;
    let (size, count) = number(program, 54, 2)
        .zip(number(program, 56, 2))
        .ok_or_else(cut)?;
    for index in 0..count {
        let at = index
            .checked_mul(size)
            .and_then(|offset| offset.checked_add(start))
            .ok_or_else(cut)?;
        if number(program, at, 4).ok_or_else(cut)? == u64::from(INTERPRETER) {
            return Err(
                "it needs a dynamic linker, and the image has none: link it statically".to_owned(),
            );
        }
    }
    Ok(architecture)
}

/// A little-endian number of `count` bytes.
fn number(bytes: &[u8], at: u64, count: usize) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let bytes = bytes.get(at..at.checked_add(count)?)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)),
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A header with one program header of this kind, and nothing behind it.
    pub(in crate::cli::image) fn program(machine: u16, kind: u32) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..4].copy_from_slice(MAGIC);
        (bytes[4], bytes[5]) = (BITS_64, LITTLE_ENDIAN);
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[32] = 64;
        (bytes[54], bytes[56]) = (56, 1);
        bytes[64..68].copy_from_slice(&kind.to_le_bytes());
        bytes
    }

    #[test]
    fn the_header_tells_the_processor() {
        assert_eq!(architecture_of_static(&program(62, 1)), Ok("amd64"));
        assert_eq!(architecture_of_static(&program(183, 1)), Ok("arm64"));
        let unknown = architecture_of_static(&program(3, 1)).unwrap_err();
        assert_eq!(unknown, "its processor (ELF machine 3) has no name here");
    }

    #[test]
    fn a_program_that_needs_a_linker_is_refused() {
        let error = architecture_of_static(&program(62, INTERPRETER)).unwrap_err();
        assert!(error.ends_with("link it statically"));
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let whole = program(62, 1);
        for length in 0..68 {
            assert!(architecture_of_static(&whole[..length]).is_err());
        }
        let mut far = whole;
        far[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(architecture_of_static(&far).is_err());
    }
}
