//! The reconcilers: observe, decide, act, report.
