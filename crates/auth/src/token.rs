//! API tokens: how they look, how they are made and checked.
//!
//! `klp_` (person), `kls_` (service), `klo_` (operator) or `klr_` (one run) + 12-character id + 32 random characters + 6-character
//! checksum, all base62 (`0-9A-Za-z`). Prefix and checksum let scanners find leaked tokens, and let us refuse
//! typos without asking the database. The published pattern is [`PATTERN`].
//!
//! The database keeps the id and an HMAC-SHA-256 of the whole token under a pepper that is not in the database. A
//! fast hash is right here: 190 random bits cannot be guessed, however fast.

use std::fmt;
use std::str::FromStr;

use hmac::{Hmac, KeyInit, Mac};
use rand::{CryptoRng, RngExt};
use secrecy::{ExposeSecret, SecretBox, SecretString};
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// A regular expression that finds tokens in text, for secret scanners.
pub const PATTERN: &str = "kl[psor]_[0-9A-Za-z]{50}";

/// The length of the id, between prefix and secret.
const ID_LENGTH: usize = 12;
/// The length of the random part: 62^32 is a little more than 2^190.
const SECRET_LENGTH: usize = 32;
/// The length of the checksum: 62^6 exceeds 2^32.
const CHECKSUM_LENGTH: usize = 6;
/// The length of a prefix, with its underscore.
const PREFIX_LENGTH: usize = 4;
/// The length of a token.
const TOKEN_LENGTH: usize = PREFIX_LENGTH + ID_LENGTH + SECRET_LENGTH + CHECKSUM_LENGTH;

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A text that is no token. It does not say in which way, and never repeats the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a token")]
pub struct InvalidToken;

/// What kind of principal a token belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// A person.
    Person,
    /// A service.
    Service,
    /// An operator of the deployment.
    Operator,
    /// A member, within one run and nowhere else.
    Run,
}

impl TokenKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Person, Self::Service, Self::Operator, Self::Run];

    const fn prefix(self) -> &'static str {
        match self {
            Self::Person => "klp_",
            Self::Service => "kls_",
            Self::Operator => "klo_",
            Self::Run => "klr_",
        }
    }

    /// The kind as it is kept in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Service => "service",
            Self::Operator => "operator",
            Self::Run => "run",
        }
    }
}

/// The public id of a token, by which it is found, listed and revoked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenId(String);

impl TokenId {
    /// The id as it is written everywhere.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TokenId {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        if text.len() == ID_LENGTH && is_base62(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidToken)
        }
    }
}

/// A well-formed token. Whether it is *valid* only the stored [`TokenMac`] can say.
#[derive(Clone)]
pub struct Token {
    kind: TokenKind,
    id: TokenId,
    text: SecretString,
}

impl Token {
    /// Makes a new token.
    pub fn generate(kind: TokenKind, rng: &mut impl CryptoRng) -> Self {
        let mut text = String::with_capacity(TOKEN_LENGTH);
        text.push_str(kind.prefix());
        for _ in 0..ID_LENGTH + SECRET_LENGTH {
            text.push(char::from(BASE62[rng.random_range(0..BASE62.len())]));
        }
        let checksum = checksum(&text);
        text.push_str(&checksum);
        let id = TokenId(text[PREFIX_LENGTH..PREFIX_LENGTH + ID_LENGTH].to_owned());
        Self {
            kind,
            id,
            text: SecretString::from(text),
        }
    }

    /// Reads a token.
    ///
    /// # Errors
    ///
    /// When prefix, length, alphabet or checksum is wrong.
    pub fn parse(text: &str) -> Result<Self, InvalidToken> {
        if text.len() != TOKEN_LENGTH || !text.is_ascii() {
            return Err(InvalidToken);
        }
        let (prefix, rest) = text.split_at(PREFIX_LENGTH);
        let kind = TokenKind::ALL
            .into_iter()
            .find(|kind| kind.prefix() == prefix)
            .ok_or(InvalidToken)?;
        let (body, sum) = text.split_at(TOKEN_LENGTH - CHECKSUM_LENGTH);
        if !is_base62(rest) || sum != checksum(body) {
            return Err(InvalidToken);
        }
        let id = TokenId(rest[..ID_LENGTH].to_owned());
        Ok(Self {
            kind,
            id,
            text: SecretString::from(text),
        })
    }

    /// What kind of principal it says it belongs to.
    #[must_use]
    pub const fn kind(&self) -> TokenKind {
        self.kind
    }

    /// Its public id.
    #[must_use]
    pub const fn id(&self) -> &TokenId {
        &self.id
    }

    /// The token itself, to be shown once to its owner.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.text.expose_secret()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}…[redacted])", self.kind.prefix())
    }
}

/// Whether a text holds something that looks like a token, right or wrong. For refusing tokens in addresses, where
/// a mistyped one is as bad a habit as a valid one.
#[must_use]
pub fn contains_token(text: &str) -> bool {
    TokenKind::ALL
        .iter()
        .map(|kind| kind.prefix())
        .any(|prefix| {
            text.match_indices(prefix).any(|(at, _)| {
                let rest = text.as_bytes()[at + PREFIX_LENGTH..].iter();
                rest.take_while(|byte| byte.is_ascii_alphanumeric()).count() >= ID_LENGTH
            })
        })
}

/// What the database keeps of a token. Equality takes the same time wherever the difference is.
#[derive(Clone, Copy)]
pub struct TokenMac([u8; 32]);

impl TokenMac {
    /// Wraps stored bytes.
    ///
    /// # Errors
    ///
    /// When they are not 32.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, InvalidToken> {
        bytes.try_into().map(Self).map_err(|_| InvalidToken)
    }

    /// The bytes, to be stored or to key a cache.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for TokenMac {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for TokenMac {}

impl fmt::Debug for TokenMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenMac([redacted])")
    }
}

/// A pepper that is too short to be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a token pepper has at least {} bytes", Pepper::MIN_LENGTH)]
pub struct ShortPepper;

/// The server's own secret in every stored [`TokenMac`]. Whoever has only the database cannot test guesses.
pub struct Pepper(SecretBox<[u8]>);

impl Pepper {
    /// The least length in bytes: that of the hash.
    pub const MIN_LENGTH: usize = 32;

    /// Wraps the secret.
    ///
    /// # Errors
    ///
    /// When it is shorter than [`Self::MIN_LENGTH`].
    pub fn new(bytes: Vec<u8>) -> Result<Self, ShortPepper> {
        if bytes.len() < Self::MIN_LENGTH {
            return Err(ShortPepper);
        }
        Ok(Self(SecretBox::new(bytes.into_boxed_slice())))
    }

    /// The MAC of a token, over its whole text.
    #[must_use]
    pub fn mac(&self, token: &Token) -> TokenMac {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.expose_secret())
            .expect("HMAC takes a key of any length");
        mac.update(token.expose().as_bytes());
        TokenMac(mac.finalize().into_bytes().into())
    }
}

impl fmt::Debug for Pepper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pepper([redacted])")
    }
}

fn is_base62(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The CRC-32 (IEEE) of a text in base62, most significant digit first, padded with zeroes.
fn checksum(text: &str) -> String {
    let mut rest = crc32fast::hash(text.as_bytes());
    let mut digits = [b'0'; CHECKSUM_LENGTH];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(rest % 62) as usize];
        rest /= 62;
    }
    digits.iter().map(|&digit| char::from(digit)).collect()
}

#[cfg(test)]
mod tests;
