//! From a request's header to the proof that the caller may: credentials, verdicts, decision, extractors.

mod caller;
mod credentials;
mod gate;
mod lasting;
mod named;
mod places;
mod uses;
mod verdicts;

pub use caller::{Caller, EnvironmentCaller, RunCaller, StateCaller, WorkspaceCaller};
pub use lasting::Lasting;
pub use named::Named;
pub use places::RunPlaces;
pub use uses::TokenUses;
pub use verdicts::Verdicts;

pub(crate) use credentials::query_holds_token;
pub(crate) use gate::{PathParams, admit, identify, record};
