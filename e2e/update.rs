//! From one revision to the next.

mod duplicate;
mod identical;
mod replaced;

pub(crate) use duplicate::a_second_extension_collides;
pub(crate) use identical::identical_content_is_a_new_revision;
pub(crate) use replaced::{both_revisions_are_told, what_is_dropped_goes};
