//! Wiring: arguments, telemetry, health, lease, shutdown order.

pub mod health;
pub mod lease;
pub mod telemetry;
