//! Wiring: arguments, telemetry, health, lease, shutdown order.
