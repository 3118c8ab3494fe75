//! What stories stand on: the runner, the cluster, and the objects in it.

pub(crate) mod beside;
pub(crate) mod chance;
pub(crate) mod cluster;
pub(crate) mod controller;
pub(crate) mod objects;
pub(crate) mod package;
pub(crate) mod real;
pub(crate) mod release;
pub(crate) mod rules;
mod runner;
pub(crate) mod stage;
pub(crate) mod wait;

pub(crate) use cluster::Cluster;
pub(crate) use runner::{Outcome, Story, one_by_one, run, side_by_side, story};
