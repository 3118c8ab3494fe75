//! Taken down: everything goes, nothing hangs.

mod account;

pub(crate) use account::without_its_account_everything_goes;
