//! Partition families: one tool over several partitions of a kind, one for each shard, region or
//! credential, so that each failure domain has a wall of its own.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::partition::Partition;
use crate::driver::{Args, Tool};
use crate::outcome::{Executed, Failure, FailureReason};

/// Where a tool's calls go.
pub(super) enum Route {
    /// All to one partition.
    Partition(Member),
    /// Each to the member that its argument names.
    Family(Family),
}

/// A partition, and the tool as its driver makes it.
pub(super) struct Member {
    pub(super) partition: Partition,
    pub(super) tool: Arc<dyn Tool>,
}

/// Members by key.
pub(super) struct Family {
    pub(super) name: Arc<str>,
    /// The argument that picks the member; the member's tool does not see it.
    pub(super) by: Arc<str>,
    pub(super) members: HashMap<Arc<str>, Member>,
}

impl Route {
    /// Where a call with `args` goes, and what its tool is given.
    ///
    /// # Errors
    ///
    /// An argument that names no member. No other member is named: keys may be customers.
    pub(super) fn of(&self, mut args: Args) -> Result<(&Member, Args), Failure> {
        match self {
            Route::Partition(member) => Ok((member, args)),
            Route::Family(family) => {
                let member = family.member(args.remove(&*family.by).as_ref())?;
                Ok((member, args))
            }
        }
    }

    /// The partition of a call with `args`, if there is one.
    pub(super) fn partition(&self, args: &Args) -> Option<&Partition> {
        let member = match self {
            Route::Partition(member) => Some(member),
            Route::Family(family) => family.member(args.get(&*family.by)).ok(),
        };
        member.map(|member| &member.partition)
    }

    /// The partition's name, or the family's.
    pub(super) fn name(&self) -> &Arc<str> {
        match self {
            Route::Partition(member) => &member.partition.shared.name,
            Route::Family(family) => &family.name,
        }
    }
}

impl Family {
    fn member(&self, key: Option<&Value>) -> Result<&Member, Failure> {
        let Family { name, by, members } = self;
        let member = match key {
            Some(Value::String(key)) => members.get(&**key),
            Some(Value::Number(key)) => members.get(&*key.to_string()),
            Some(_) => return Err(invalid(format!("`{by}` must be a string"))),
            None => return Err(invalid(format!("`{by}` is missing: it picks the part of {name}"))),
        };
        member.ok_or_else(|| {
            let message = format!("`{by}` names no part of {name}");
            Failure::new(FailureReason::UnknownPartition, message).executed(Executed::No)
        })
    }
}

fn invalid(message: String) -> Failure {
    Failure::new(FailureReason::InvalidCall, message).executed(Executed::No)
}
