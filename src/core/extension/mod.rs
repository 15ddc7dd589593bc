//! What is decided for a ClusterExtension: from its spec and annotations, its revisions and the
//! catalogs to the bundle it is to have, the update it is offered, and the revision to be written.
//!
//! The controller acts on these decisions; the plugin prints them.

mod approval;
mod content;
mod course;
mod decide;
mod deprecation;
mod desired;
pub mod holds;
mod known_catalog;
mod left;
mod lift;
mod policy;
mod question;
mod rendering;
mod rollback;
mod rollout;
mod said;
mod step;
pub mod summary;
mod support;
mod valid;
mod window;

pub use approval::{Approval, Demand, plan_digest, requires_approval};
pub use content::retagged;
pub use course::Course;
pub use decide::{Answer, DecisionError, Goal, Needs, Notice, Question};
pub use desired::{RevisionSource, desired, forced_step};
pub use known_catalog::KnownCatalog;
pub use left::{Left, left_version};
pub use lift::{Lift, LiftStep, counting};
pub use policy::{CatalogMove, Defaults, PermissionIncrease, Policy};
pub use rendering::{Extras, Rendering};
pub use rollback::{Return, RollbackError, going_back, reverted};
pub use rollout::{Rollout, Unfinished, newest_known, under_way};
pub use said::said;
pub use step::{StepRights, issued_again, recorded_copies, recorded_issuer};
pub use support::supported;
pub use valid::ValidExtension;
pub use window::{WindowError, Windows};
