//! Acting as a service account.
