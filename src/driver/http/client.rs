//! An open HTTP partition and its tools.

use std::fmt;
use std::sync::Arc;

use ureq::Agent;
use ureq::http::header::{HeaderMap, HeaderName};

use super::exchange::exchange;
use super::origin::Origin;
use super::plan::Plan;
use super::quota::Source;
use super::request::Request;
use super::stream::{StreamLimits, StreamTool};
use super::watch::Watch;
use crate::call::Run;
use crate::driver::{Args, Operation, Tool};
use crate::outcome::Failure;

/// An open HTTP partition, from which its tools are made. Clones share its connections.
#[derive(Clone)]
pub struct Client(Arc<Partition>);

/// What the tools of a partition share.
pub(super) struct Partition {
    pub(super) agent: Agent,
    pub(super) origin: Origin,
    /// The path of the base URL, without a slash at its end.
    pub(super) prefix: String,
    pub(super) headers: HeaderMap,
    pub(super) quotas: Vec<Source<HeaderName>>,
    pub(super) body_max: u64,
    pub(super) watch: Arc<Watch>,
}

impl Client {
    pub(super) fn new(partition: Partition) -> Client {
        Client(Arc::new(partition))
    }

    /// The tool that sends `request`.
    ///
    /// # Errors
    ///
    /// The key that is wrong and the rule it breaks.
    pub fn tool(&self, request: Request) -> Result<Arc<dyn Tool>, String> {
        let plan = Arc::new(request.plan(&self.0.prefix)?);
        Ok(Arc::new(HttpTool { partition: Arc::clone(&self.0), plan }))
    }

    /// The tool that sends `request` and whose answer is read while it comes, within `limits`.
    ///
    /// # Errors
    ///
    /// The key that is wrong and the rule it breaks.
    pub fn streaming(&self, request: Request, limits: StreamLimits) -> Result<StreamTool, String> {
        for (key, limit) in [("silence_max", limits.silence_max), ("idle_max", limits.idle_max)] {
            if limit.is_zero() {
                return Err(format!("`{key}`: must be above zero"));
            }
        }
        let plan = request.plan(&self.0.prefix)?;
        Ok(StreamTool::new(Arc::clone(&self.0), plan, limits))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("origin", &self.0.origin.as_str()).finish_non_exhaustive()
    }
}

struct HttpTool {
    partition: Arc<Partition>,
    plan: Arc<Plan>,
}

impl Tool for HttpTool {
    fn prepare(&self, args: &Args) -> Result<Operation, Failure> {
        let partition = Arc::clone(&self.partition);
        let plan = Arc::clone(&self.plan);
        let filled = plan.fill(partition.origin.as_str(), &partition.headers, args)?;
        Ok(Box::new(move |run: &Run| exchange(&partition, &plan, &filled, run)))
    }
}
