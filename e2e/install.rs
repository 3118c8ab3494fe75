//! What is installed, and how it is told.

mod configuration;
mod contents;
mod documented;
mod least;
mod modes;

pub(crate) use configuration::a_node_selector_reaches_the_operator;
pub(crate) use contents::{a_large_definition_installs, revisions_tell_what_they_hold};
pub(crate) use documented::the_documented_rules_are_enough;
pub(crate) use least::generated_rules_are_enough_and_none_can_go;
pub(crate) use modes::{all_namespaces, own_namespace, single_namespace};
