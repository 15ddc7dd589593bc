//! The parts of the controller that act.
//!
//! What a process keeps besides the cluster can all be had again, and has a bound:
//!
//! | kept | where | bound | goes when |
//! |---|---|---|---|
//! | content and index of catalogs | disk, `catalog/store` | `--cache-limit` | the catalog or its digest goes |
//! | bundle images | disk, `olm_image::bundle` | `--cache-limit` | no revision in use was made of it |
//! | packages of catalogs, parsed | `fetch` | 4,096 and 64 MiB | the catalog changes, or the oldest |
//! | extensions that are settled: a hash of what the revision was made of, and the issuer of its certificates | `extension/settled.rs` | one per extension | the extension goes |
//! | rendered contents | `extension/content.rs` | 8 and 64 MiB | the revision has rolled out, or the oldest |
//! | content of revisions | `revision/kept.rs` | 32 MiB | it rolled out 10 s ago, or its Secrets change |
//! | state of objects after their last apply: hash and metadata | `apply/applied_cache.rs` | what is managed | the revision goes |
//! | the same of settled revisions, for the next process | disk, `objectset/settled.rs` | one file per revision, `--cache-limit` | the revision goes, or changes |
//! | resource versions of watched objects | `cluster/watches.rs` | what is watched | the watch ends |
//! | extensions, revisions, catalogs, without managed fields | stores of the watches | what exists | it is deleted |
//! | metadata of content Secrets; names of accounts | the same | what exists | it is deleted |
//! | served kinds | `cluster/kinds.rs` | what is asked for | CRDs or `APIService`s change |
//! | kinds of installed revisions; installed `ClusterServiceVersion`s; generation and times of CRDs | `extension/discovery.rs` | what exists | the revision goes; after a minute; the CRD goes |
//! | subjects and roles of bindings | `rbac_watch.rs` | what exists | nothing has waited for rights for a minute |
//! | verdicts on readers of metrics | `server/auth.rs` | 1,024 of each sort | they expire, or more are needed |

pub mod account;
pub mod apply;
pub mod args;
pub mod backoff;
pub mod by_key;
pub mod catalog;
pub mod certificates;
pub mod cluster;
pub mod credentials;
pub mod excess;
pub mod extension;
pub mod fetch;
pub mod gate;
pub mod lease;
pub mod live;
pub mod manager;
pub mod objectset;
pub mod owned;
pub mod parts;
pub mod pull_secrets;
pub mod rbac_watch;
pub mod recent;
pub mod reconcile;
pub mod resources;
pub mod revision;
pub mod rights;
pub mod seen;
pub mod server;
pub mod serving;
pub mod settings;
pub mod telemetry;
pub mod term;
pub mod tls;
pub mod turns;
pub mod version;
pub mod watchdog;
pub mod written;
mod x509;
