//! The native lane with the real Terraform: what `kl plan` and `kl apply` do, and what they leave.

mod applies;
mod failures;
mod lanes;
mod matrix;
mod plans;
mod saved;
mod site;
