//! Phases, packing, adoption and probes of ClusterObjectSets.
