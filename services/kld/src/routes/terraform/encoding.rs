//! What a reader accepts: content codings and conditional requests.

use axum::http::{HeaderMap, header};

/// A coding of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Identity,
    Gzip,
}

impl Coding {
    /// Distinguishes the entity tags of the same document in different codings.
    pub(super) fn etag_suffix(self) -> &'static str {
        match self {
            Self::Identity => "",
            Self::Gzip => "-gzip",
        }
    }
}

/// Chooses among what the request accepts: gzip when it is as welcome as plain, else plain.
pub(crate) fn choose_coding(headers: &HeaderMap) -> Coding {
    let mut gzip = None;
    let mut identity = None;
    let mut any = None;
    for value in headers.get_all(header::ACCEPT_ENCODING) {
        for item in value.to_str().unwrap_or_default().split(',') {
            let mut parts = item.split(';');
            let name = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
            let quality = parts
                .find_map(|part| part.trim().strip_prefix("q="))
                .map_or(1.0, |quality| quality.trim().parse::<f32>().unwrap_or(0.0));
            match name.as_str() {
                "gzip" | "x-gzip" => gzip = Some(quality),
                "identity" => identity = Some(quality),
                "*" => any = Some(quality),
                _ => {}
            }
        }
    }
    let gzip = gzip.or(any).unwrap_or(0.0);
    let plain = identity.unwrap_or(if any == Some(0.0) { 0.0 } else { 0.001 });
    if gzip > 0.0 && gzip >= plain {
        Coding::Gzip
    } else {
        Coding::Identity
    }
}

/// Whether If-None-Match names this tag. Comparison is weak, as RFC 9110 section 13.1.2 asks.
pub(super) fn is_current(headers: &HeaderMap, etag: &str) -> bool {
    headers.get_all(header::IF_NONE_MATCH).iter().any(|value| {
        value
            .to_str()
            .unwrap_or_default()
            .split(',')
            .any(|candidate| {
                let candidate = candidate.trim();
                candidate == "*" || candidate.strip_prefix("W/").unwrap_or(candidate) == etag
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepting(value: &str) -> Coding {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, value.parse().unwrap());
        choose_coding(&headers)
    }

    #[test]
    fn gzip_is_sent_where_it_is_asked_for() {
        assert_eq!(choose_coding(&HeaderMap::new()), Coding::Identity);
        for asked in [
            "gzip",
            "deflate, gzip;q=0.8",
            "*",
            "identity;q=0, *",
            "GZIP",
            "identity;q=0",
        ] {
            let expected = if asked == "identity;q=0" {
                Coding::Identity
            } else {
                Coding::Gzip
            };
            assert_eq!(accepting(asked), expected, "{asked}");
        }
        for refused in [
            "zstd",
            "identity",
            "gzip;q=0",
            "gzip;q=0.2, identity",
            "*;q=0",
            "br, gzip;q=nonsense",
        ] {
            assert_eq!(accepting(refused), Coding::Identity, "{refused}");
        }
    }

    #[test]
    fn only_the_current_tag_is_not_modified() {
        let mut headers = HeaderMap::new();
        assert!(!is_current(&headers, "\"a\""));
        headers.insert(header::IF_NONE_MATCH, "\"b\", W/\"a\"".parse().unwrap());
        assert!(is_current(&headers, "\"a\""));
        assert!(!is_current(&headers, "\"a-gzip\""));
    }
}
