//! Who may do what: API tokens, principals, actions, and the one decision over them.
//!
//! Pure: no I/O and no clock. `store` keeps what is decided over, `kld` asks and acts on the answer. Nothing outside
//! this crate compares roles or decides by the kind of a caller; it names an [`Action`] and asks [`authorize`].

mod action;
mod authorize;
mod context;
mod roles;
pub mod token;

pub use action::Action;
pub use authorize::{Decision, Resource, authorize};
pub use context::{Context, Principal};
pub use protocol::Role;
pub use protocol::tenancy::{CallerKind, Grant, TokenScope};
pub use roles::Roles;
pub use token::{InvalidToken, Pepper, Token, TokenId, TokenKind, TokenMac};
