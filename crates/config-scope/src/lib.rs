//! What `.tf` files declare and reference: the local half of a scope.
//!
//! [`Configuration::load`] reads a root module and all modules it can reach on disk, and answers
//! which resource blocks there are, what each depends on, and what a set of files or targets
//! selects. All answers are on the level of configuration blocks; which instances these have is
//! known to the state alone.
//!
//! The rule for every choice in here: the set of dependencies may be too large, never too small.
//! What is not understood is not skipped but reported, as a [`Doubt`], and a scope with a doubt is
//! not proven.
//!
//! ```
//! use config_scope::{Confidence, Configuration, MemoryTree, Selectors, SourcePath};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut tree = MemoryTree::new();
//! tree.insert("net.tf", r#"resource "aws_vpc" "main" { cidr_block = var.range }"#);
//! tree.insert("web.tf", r#"resource "aws_subnet" "web" { vpc_id = local.vpc }"#);
//! tree.insert("locals.tf", "locals { \n vpc = aws_vpc.main.id \n }");
//! let configuration = Configuration::load(&tree)?;
//!
//! let files = vec![SourcePath::new("web.tf")];
//! let selection = configuration.select(&Selectors { files, ..Selectors::default() });
//! let closure: Vec<String> = selection.closure.iter().map(ToString::to_string).collect();
//! assert_eq!(closure, ["aws_subnet.web", "aws_vpc.main"]);
//! assert_eq!(selection.confidence, Confidence::Safe);
//! # Ok(())
//! # }
//! ```
//!
//! Not for: evaluating expressions, reading states, deciding what a run may do.

mod address;
mod configuration;
mod doubt;
mod facts;
mod graph;
mod module;
mod moves;
mod near;
mod reference;
mod select;
mod source;
mod syntax;
mod target;

pub use address::{ConfigAddress, ConfigModule, Mode, NotAConfigAddress};
pub use configuration::{Configuration, Import, LocalModule, Node, Output, Removed, Variable};
pub use doubt::{Confidence, Doubt, DoubtKind};
pub use facts::Repetition;
pub use module::{LoadError, Location, ParseCache};
pub use moves::Move;
pub use select::{
    FileReport, FileRole, PlanTarget, Selection, Selectors, TouchedMove, Unmatched, WriteSet,
};
pub use source::{
    DiskTree, Flavour, MemoryTree, SourceFile, SourcePath, SourceTree, is_configuration_name,
    is_variables_name,
};
pub use syntax::variables_assigned_in;
pub use target::{Target, TargetResource};
