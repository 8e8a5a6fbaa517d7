//! Why a document was refused. A refusal is about the bytes themselves; whether the caller may
//! write them, and whether the serial fits the head, is decided elsewhere.

/// Byte order of a document that turned out to be UTF-16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteOrder {
    Little,
    Big,
}

/// One variant per thing the sender can do about it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    #[error(
        "the document starts with a UTF-8 byte order mark, which Terraform cannot read; save it as plain UTF-8"
    )]
    ByteOrderMark,
    #[error("the document is UTF-16 ({order:?}-endian); save it as plain UTF-8")]
    Utf16 { order: ByteOrder },
    #[error("the document is empty")]
    Empty,
    #[error("the document is not UTF-8: invalid byte at offset {offset}")]
    NotUtf8 { offset: usize },
    #[error("the document is not JSON: {what} at offset {offset}")]
    NotJson { offset: usize, what: &'static str },
    #[error("the document is JSON but not an object")]
    NotAnObject,
    #[error("the serial {serial} is not a number from 0 to 18446744073709551615")]
    SerialOutOfRange { serial: String },
    #[error("the document holds {address} more than once")]
    DuplicateAddress { address: String },
    #[error("the document holds more than {limit} resource instances and outputs")]
    TooManyInstances { limit: usize },
}

impl Refusal {
    /// The stable, documented code of this refusal (snake_case, never reworded).
    pub fn code(&self) -> &'static str {
        match self {
            Self::ByteOrderMark => "byte_order_mark",
            Self::Utf16 { .. } => "utf16",
            Self::Empty => "empty_document",
            Self::NotUtf8 { .. } => "not_utf8",
            Self::NotJson { .. } => "not_json",
            Self::NotAnObject => "not_an_object",
            Self::SerialOutOfRange { .. } => "serial_out_of_range",
            Self::DuplicateAddress { .. } => "duplicate_address",
            Self::TooManyInstances { .. } => "too_many_instances",
        }
    }
}
