//! Conditions, and every text in one.
//!
//! A [`Statement`] is the desired content of one condition. The text of a state has a builder in
//! [`extension`], [`catalog`] or [`object_set`]; the text of a failure is the `Display` of its error
//! with its causes ([`crate::error::Chain`]), and is defined with that error. [`Statement::put`] and [`copy_condition`] are the only ways to write a list of conditions:
//! they keep transition times right, messages within the limit of the API, and text that changes on
//! every attempt out of them.

pub mod catalog;
pub mod extension;
mod message;
pub mod object_set;
mod ready;
mod said;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use olm_api::conditions::{Reason, status, types};

pub use message::{MESSAGE_LIMIT, sanitize, truncate};
pub use ready::{
    Note, catalog_ready, extension_ready, object_set_ready, put_ready, removal_blocked,
    removal_held, uninstalling,
};
pub use said::{Differs, Said};

#[cfg(test)]
mod tests;

/// The content of one condition, without the times and generations that writing it adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Condition type, of [`olm_api::conditions::types`].
    pub type_: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// Why, in one word.
    pub reason: Reason,
    /// Message for people; may be empty.
    pub message: String,
}

impl Statement {
    /// Makes a statement with status `True`.
    pub fn yes(type_: &'static str, reason: Reason, message: impl Into<String>) -> Self {
        Self { type_, status: status::TRUE, reason, message: message.into() }
    }

    /// Makes a statement with status `False`.
    pub fn no(type_: &'static str, reason: Reason, message: impl Into<String>) -> Self {
        Self { type_, status: status::FALSE, reason, message: message.into() }
    }

    /// Makes a statement with status `Unknown`.
    pub fn unknown(type_: &'static str, reason: Reason, message: impl Into<String>) -> Self {
        Self { type_, status: status::UNKNOWN, reason, message: message.into() }
    }

    /// Puts the statement into `conditions`, keyed by type, for an object of this generation, and
    /// says whether anything changed.
    ///
    /// `lastTransitionTime` changes only when `status` does; reason, message and observed generation
    /// are always overwritten. The caller writes the object only if this returns `true`, so that a
    /// settled object does not trigger its own reconcile. Times are truncated to whole seconds,
    /// because the API stores no more.
    pub fn put(
        self,
        conditions: &mut Vec<Condition>,
        generation: Option<i64>,
        now: Timestamp,
    ) -> bool {
        let condition = Condition {
            type_: self.type_.to_owned(),
            status: self.status.to_owned(),
            reason: self.reason.to_string(),
            message: self.message,
            observed_generation: generation,
            last_transition_time: whole_seconds(now),
        };
        place(conditions, condition)
    }
}

/// Copies a condition of another object, so that a `ClusterExtension` shows that of its revision.
///
/// The observed generation becomes that of the receiving object. When the status changes, the
/// transition time is the one of the copied condition (api.md 4.2).
pub fn copy_condition(
    conditions: &mut Vec<Condition>,
    from: &Condition,
    generation: Option<i64>,
) -> bool {
    place(conditions, Condition { observed_generation: generation, ..from.clone() })
}

fn place(conditions: &mut Vec<Condition>, mut new: Condition) -> bool {
    new.message = sanitize(&new.message);
    truncate(&mut new.message);
    let Some(old) = conditions.iter_mut().find(|c| c.type_ == new.type_) else {
        conditions.push(new);
        return true;
    };
    if old.status == new.status {
        new.last_transition_time = old.last_transition_time.clone();
    }
    let changed = *old != new;
    *old = new;
    changed
}

/// Removes the condition of this type from `conditions`, and says whether there was one.
pub fn remove_condition(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() != before
}

/// Returns the condition of this type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Says whether the condition of this type is `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == status::TRUE)
}

/// `Progressing`: the reconcile failed and is retried.
pub fn retrying(error: impl Into<String>) -> Statement {
    Statement::yes(types::PROGRESSING, Reason::Retrying, error)
}

/// `Progressing`: the reconcile failed and needs somebody to act. `reason` is that of
/// [`crate::error::Disposition::Terminal`].
pub fn terminal(reason: Reason, error: impl Into<String>) -> Statement {
    Statement::no(types::PROGRESSING, reason, error)
}

fn whole_seconds(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}
