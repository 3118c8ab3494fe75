//! Rendering, rule by rule, where no recorded case covers it.
