//! Manifests to a revision plan: phases, probes, collisions, rollouts.
