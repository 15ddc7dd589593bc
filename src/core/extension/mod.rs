//! What is decided for a ClusterExtension: from its spec and annotations, its revisions and the
//! catalogs to the bundle it is to have, the update it is offered, and the revision to be written.
//!
//! The controller acts on these decisions; the plugin prints them.

mod content;
mod decide;
mod deprecation;
mod desired;
mod lift;
mod policy;
mod rollout;
mod valid;

pub use content::retagged;
pub use decide::{Answer, DecisionError, Goal, Needs, Notice, Question};
pub use desired::{Source, desired, forced_step};
pub use lift::{Lift, Step, counting};
pub use policy::{Policy, PolicyError, ValueError};
pub use rollout::ongoing_rollout;
pub use valid::ValidExtension;
