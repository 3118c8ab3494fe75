//! Taken down: everything goes, nothing hangs.

mod account;
mod at_once;
mod leaving;
pub(crate) mod orphaned;

pub(crate) use account::without_its_account_everything_goes;
pub(crate) use at_once::everything_is_deleted_in_one_command;
pub(crate) use leaving::resources_that_leave_are_waited_for;
pub(crate) use orphaned::what_is_orphaned_stays_and_is_taken_back;
