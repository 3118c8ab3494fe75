//! What the libraries of functions have in common.

use super::value::{Cel, Failure};

/// A function: its name, whether it is of a value, and the numbers of further arguments.
pub(super) type Signature = (&'static str, bool, &'static [usize]);

/// What a call comes to.
pub(super) type Called<'v> = Result<Cel<'v>, Failure>;

/// Whether a library has a function.
pub(super) fn has(
    library: &[Signature],
    function: &str,
    is_member: bool,
    arguments: usize,
) -> bool {
    library.iter().any(|(name, member, counts)| {
        *name == function && *member == is_member && counts.contains(&arguments)
    })
}
