//! The settings that are words or durations, each parsed from text with an error that lists what
//! would have been understood.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Declares a setting with a closed set of words; the first spelling is the one printed.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal $(| $other:literal)*),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name {
            $($(#[$vdoc])* $variant),+
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word $(| $other)* => Ok(Self::$variant),)+
                    _ => Err(format!("`{text}` is none of {}", [$($word),+].join(", "))),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word),+ })
            }
        }
    };
}

words!(
    /// Which protocol work on a state goes through. The second spellings are those of the
    /// published `KL_PROTOCOL`.
    Protocol {
        /// The native one where the server has it, the http backend otherwise.
        Auto = "auto",
        Http = "http" | "terraform-http" | "backend",
        Kl = "kl" | "state-engine",
    }
);

words!(
    /// When a run asks before it changes infrastructure.
    Confirm {
        Never = "never",
        Destroy = "destroy",
        Always = "always",
    }
);

words!(
    /// What a run does when its scope cannot be proven.
    Fallback {
        Ask = "ask",
        Never = "never",
        Always = "always",
    }
);

/// A duration as people write it: `90s`, `10m`, `1h30m`, `90d`, or `0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self(Duration::ZERO));
        }
        let refused = || format!("`{text}` is not a duration such as 90s, 10m, 1h30m, 90d or 0");
        let mut seconds: u64 = 0;
        let mut rest = text;
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let count: u64 = rest[..digits].parse().map_err(|_| refused())?;
            let unit = rest[digits..].chars().next().ok_or_else(refused)?;
            let factor = match unit {
                's' => 1,
                'm' => 60,
                'h' => 3_600,
                'd' => 86_400,
                _ => return Err(refused()),
            };
            seconds = count
                .checked_mul(factor)
                .and_then(|more| seconds.checked_add(more))
                .ok_or_else(refused)?;
            rest = &rest[digits + unit.len_utf8()..];
        }
        if text.is_empty() {
            return Err(refused());
        }
        Ok(Self(Duration::from_secs(seconds)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_secs();
        if rest == 0 {
            return f.write_str("0");
        }
        for (unit, size) in [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)] {
            if rest >= size {
                write!(f, "{}{unit}", rest / size)?;
                rest %= size;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_print_alike() {
        for text in ["0", "90s", "10m", "1h30m", "90d"] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.to_string().parse::<Span>().unwrap(), span, "{text}");
        }
        assert_eq!("1h30m".parse::<Span>().unwrap().0.as_secs(), 5_400);
        for text in [
            "",
            "10",
            "m",
            "-1s",
            "1.5h",
            "99999999999999999999s",
            "1w",
            "5é",
        ] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    #[test]
    fn words_know_their_published_spellings_and_list_themselves() {
        assert_eq!("state-engine".parse::<Protocol>().unwrap(), Protocol::Kl);
        assert_eq!(
            "grpc".parse::<Protocol>().unwrap_err(),
            "`grpc` is none of auto, http, kl"
        );
    }
}
