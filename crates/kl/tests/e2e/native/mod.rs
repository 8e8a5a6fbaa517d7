//! The native lane with the real Terraform: what `kl plan` and `kl apply` do, and what they leave.

mod applies;
mod failures;
mod lanes;
mod manners;
mod marks;
mod matrix;
mod notes;
mod plans;
mod recovery;
mod saved;
mod site;
