//! What heals by itself.

mod catalog;
mod foreign;
mod kinds;
mod namespace;
mod readiness;
mod status;
mod unknown;
mod unwatched;
mod users;

pub(crate) use catalog::without_its_catalog_content_is_kept_up;
pub(crate) use foreign::an_object_in_the_way_is_removed;
pub(crate) use kinds::what_comes_beside_the_operator_is_kept_up;
pub(crate) use namespace::an_extension_waits_for_its_namespace;
pub(crate) use readiness::an_unready_operator_is_told;
pub(crate) use status::what_somebody_else_wrote_is_put_right;
pub(crate) use unknown::what_the_server_does_not_know_is_left_out;
pub(crate) use unwatched::what_oxolm_may_not_watch_is_kept_up;
pub(crate) use users::what_users_add_stays;
