//! Finding the token in a request.
//!
//! Plain Terraform can only send Basic authentication, so the token stands in its password. All that is wrong with
//! credentials gives the same 401, which names no reason.

use auth::Token;
use axum::http::{HeaderMap, HeaderValue, header};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use percent_encoding::percent_decode_str;
use protocol::Code;
use telemetry::AuthRefusal;

use crate::error::ApiError;

/// Standard base64, with or without its padding: some clients leave it out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The longest header that may hold a token. The longest honest one is a Basic header with a long user name.
const MAX_HEADER_LENGTH: usize = 4096;

/// The one answer to a request without valid credentials.
pub(super) fn unauthenticated(reason: AuthRefusal) -> ApiError {
    telemetry::auth_refused(reason);
    ApiError::new(Code::Unauthenticated)
        .with_header(
            header::WWW_AUTHENTICATE,
            HeaderValue::from_static(r#"Basic realm="kilolock", charset="UTF-8""#),
        )
        .with_header(
            header::WWW_AUTHENTICATE,
            HeaderValue::from_static(r#"Bearer realm="kilolock""#),
        )
}

/// Reads the token of a request.
///
/// # Errors
///
/// 401 when there is none, or none that is well-formed.
pub(super) fn token(headers: &HeaderMap) -> Result<Token, ApiError> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values
        .next()
        .ok_or_else(|| unauthenticated(AuthRefusal::Missing))?;
    let malformed = || unauthenticated(AuthRefusal::Malformed);
    if values.next().is_some() || value.len() > MAX_HEADER_LENGTH {
        return Err(malformed());
    }
    let text = value.to_str().map_err(|_| malformed())?;
    let text = find(text).ok_or_else(malformed)?;
    Token::parse(&text).map_err(|_| malformed())
}

/// The text in a header's value that should be a token.
fn find(header: &str) -> Option<String> {
    let (scheme, rest) = header.trim().split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = String::from_utf8(BASE64.decode(rest).ok()?).ok()?;
    // The first colon ends the user name (RFC 7617); nothing is percent-decoded. Without a password the user name is the
    // token, as other services have taught people.
    let (user, password) = pair.split_once(':')?;
    Some(if password.is_empty() { user } else { password }.to_owned())
}

/// Whether a query string holds something that looks like a token, plain or percent-encoded.
pub(crate) fn query_holds_token(query: &str) -> bool {
    auth::token::contains_token(query)
        || auth::token::contains_token(&percent_decode_str(query).decode_utf8_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic(pair: &str) -> String {
        format!("Basic {}", BASE64.encode(pair))
    }

    #[test]
    fn a_token_is_found_where_clients_put_it() {
        for header in [
            "Bearer T".to_owned(),
            "bearer T".to_owned(),
            "BEARER  T ".to_owned(),
            basic("first.last+ci@ex.org:T"),
            basic(":T"),
            basic("T:"),
            format!("bAsIc  {}", BASE64.encode("u:T").trim_end_matches('=')),
        ] {
            assert_eq!(find(&header).as_deref(), Some("T"), "{header}");
        }
    }

    #[test]
    fn a_password_is_what_stands_behind_the_first_colon_as_it_stands() {
        let found = find(&basic("first.last+ci@ex.org:p%25:a#b~c é€ \"q\""));
        assert_eq!(found.as_deref(), Some("p%25:a#b~c é€ \"q\""));
    }

    #[test]
    fn anything_else_is_no_token() {
        let not_utf8 = format!("Basic {}", BASE64.encode([0x75, 0x3a, 0xff, 0xfe]));
        for header in [
            "",
            "T",
            "Bearer",
            "Digest T",
            "Basic !!!",
            "Basic dQ",
            &not_utf8,
        ] {
            assert_eq!(find(header), None, "{header}");
        }
    }

    #[test]
    fn a_token_in_a_query_is_seen_through_its_encoding() {
        assert!(query_holds_token("ID=1&token=klp_AbCdEf0123450123456789"));
        assert!(query_holds_token("x=kls%5FAbCdEf012345"));
        assert!(!query_holds_token(
            "ID=aaaaaaaa-0000-0000-0000-000000000001"
        ));
    }
}
